//! The queue of misses, from the workers to the event loop: fair between clients.  Its twin is
//! hsdns/fastpath/miss_queue.py.
//!
//! Rule 1: a client is an IPv4 address or an IPv6 prefix of 64 bits; each client has a queue of its own.
//! Rule 2: the queues are served round robin, one miss each, so a client waits for as many misses as there are clients,
//!         however many another client has sent.
//! Rule 3: the total is bounded, in number and in octets.  If a new miss does not fit, the server drops the newest miss
//!         of the client with the most misses, or the new one if no client has more than its sender.  It counts the
//!         dropped miss; to the client this looks like a loss in the network.  So a client with less than its share,
//!         which is the capacity divided by the number of clients, loses nothing while the octets fit.
//! Rule 4: clients are hashed with SipHash and a random seed, because addresses can be chosen by an attacker.
//! Rule 5: the capacity may change; hsdns/server/transport/admission.py lowers it under lasting overload.
//! Rule 6: a caller that has taken a miss and answered it at no cost may give the client's turn back.
//! Rule 7: its descriptor is readable exactly while the queue is not empty: it is set and cleared under the lock.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::batch::is_ipv6;
use crate::lock::lock;
use crate::system::{Event, Packet};

/// Average octets for each miss.
const OCTETS_PER_MISS: usize = 512;

/// A miss in the queue.
pub struct Waiting {
    /// The index of the worker that received it.
    pub worker: usize,
    octets: Box<[u8]>,
    address_at: usize,
    control_at: usize,
}

impl Waiting {
    /// Keep a packet of a worker.
    #[must_use]
    pub fn new(worker: usize, packet: &Packet<'_>) -> Self {
        Self {
            worker,
            octets: [packet.query, packet.address, packet.control]
                .concat()
                .into_boxed_slice(),
            address_at: packet.query.len(),
            control_at: packet.query.len() + packet.address.len(),
        }
    }

    /// The packet.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            query: self.query(),
            address: self.address(),
            control: self.control(),
            is_cut: false,
        }
    }

    /// The query, as received.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        &self.octets[..self.address_at]
    }

    /// The client's socket address.
    #[must_use]
    pub fn address(&self) -> &[u8] {
        &self.octets[self.address_at..self.control_at]
    }

    /// The control messages received with it.
    #[must_use]
    pub fn control(&self) -> &[u8] {
        &self.octets[self.control_at..]
    }
}

/// An IPv4 address or the first half of an IPv6 address, and which of both it is.
pub type Client = (bool, [u8; 8]);

/// The client of a socket address.
#[must_use]
pub fn client_of(address: &[u8]) -> Client {
    let mut found = [0; 8];
    let is_ipv6 = is_ipv6(address);
    let octets = match address.len() {
        16 => &address[4..8],
        28 if is_ipv6 => &address[8..16],
        28 => &address[20..24],
        _ => &[],
    };
    found[..octets.len()].copy_from_slice(octets);
    (is_ipv6, found)
}

/// The queue of all workers.
pub struct MissQueue {
    event: Event,
    capacity: AtomicUsize,
    inner: Mutex<Inner>,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Inner {
    /// The misses of each client that has any, the oldest first.
    lines: HashMap<Client, VecDeque<Waiting>>,
    /// The same clients, the next one to be served first.
    turns: VecDeque<Client>,
    /// The client whose miss was taken last.
    last: Option<Client>,
    /// The same clients by the number of their misses.
    by_length: BTreeSet<(usize, Client)>,
    count: usize,
    octets: usize,
}

impl MissQueue {
    /// Make an empty queue for this many misses.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            event: Event::new()?,
            capacity: AtomicUsize::new(capacity),
            inner: Mutex::default(),
            dropped: AtomicU64::new(0),
        })
    }

    /// The file descriptor that is readable while the queue is not empty.
    #[must_use]
    pub fn fileno(&self) -> RawFd {
        self.event.fileno()
    }

    /// The number of dropped misses.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of waiting misses.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.inner).count
    }

    /// Return whether no miss waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Change the capacity; drops the newest misses of the clients with the most, down to one each.
    pub fn set_capacity(&self, capacity: usize) {
        let mut inner = lock(&self.inner);
        self.capacity.store(capacity, Ordering::Relaxed);
        let most = capacity.saturating_mul(OCTETS_PER_MISS);
        while (inner.count > capacity || inner.octets > most) && inner.drop_newest(1) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Add the misses of a batch.
    pub fn offer<'a>(&self, worker: usize, misses: impl ExactSizeIterator<Item = Packet<'a>>) {
        if misses.len() == 0 {
            return;
        }
        let mut inner = lock(&self.inner);
        let capacity = self.capacity.load(Ordering::Relaxed);
        let was_empty = inner.count == 0;
        let mut dropped = 0;
        for packet in misses {
            let client = client_of(packet.address);
            let is_full = |inner: &Inner| {
                inner.count >= capacity
                    || inner.octets + packet.query.len() > capacity.saturating_mul(OCTETS_PER_MISS)
            };
            let own = 1 + inner.lines.get(&client).map_or(0, VecDeque::len);
            while is_full(&inner) && inner.drop_newest(own) {
                dropped += 1;
            }
            if is_full(&inner) {
                dropped += 1;
            } else {
                inner.push(client, Waiting::new(worker, &packet));
            }
        }
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
        if was_empty && inner.count > 0 {
            self.event.set();
        }
    }

    /// Remove and return the next misses, at most this many.
    pub fn take(&self, most: usize) -> Vec<Waiting> {
        let mut inner = lock(&self.inner);
        let was_empty = inner.count == 0;
        let taken: Vec<_> = std::iter::from_fn(|| inner.pop()).take(most).collect();
        if !was_empty && inner.count == 0 {
            self.event.clear();
        }
        taken
    }

    /// Serve the client of the last miss first again, unless it has no more or another client has joined since.
    pub fn give_turn_back(&self) {
        let mut inner = lock(&self.inner);
        if inner.last.is_some() && inner.turns.back() == inner.last.as_ref() {
            inner.turns.rotate_right(1);
        }
    }
}

impl Inner {
    fn push(&mut self, client: Client, miss: Waiting) {
        self.count += 1;
        self.octets += miss.query().len();
        let line = self.lines.entry(client).or_default();
        line.push_back(miss);
        let length = line.len();
        if length == 1 {
            self.turns.push_back(client);
        }
        self.by_length.remove(&(length - 1, client));
        self.by_length.insert((length, client));
    }

    fn pop(&mut self) -> Option<Waiting> {
        let client = self.turns.pop_front()?;
        let line = self.lines.get_mut(&client)?;
        let miss = line.pop_front()?;
        let length = line.len();
        self.by_length.remove(&(length + 1, client));
        if length == 0 {
            self.lines.remove(&client);
        } else {
            self.by_length.insert((length, client));
            self.turns.push_back(client);
        }
        self.last = Some(client);
        self.count -= 1;
        self.octets -= miss.query().len();
        Some(miss)
    }

    /// Drop the newest miss of the client with the most; False if none has more than `own`, which is 1 or more.
    ///
    /// That client has two misses or more, so that its queue does not become empty, and it keeps its place.
    fn drop_newest(&mut self, own: usize) -> bool {
        let Some(&(length, client)) = self.by_length.last() else {
            return false;
        };
        if length <= own {
            return false;
        }
        let Some(miss) = self.lines.get_mut(&client).and_then(VecDeque::pop_back) else {
            return false;
        };
        self.by_length.remove(&(length, client));
        self.by_length.insert((length - 1, client));
        self.count -= 1;
        self.octets -= miss.query().len();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients() {
        let v4 = |family: u16, ip: [u8; 4]| {
            let port = [0, 53];
            [&family.to_ne_bytes()[..], &port, &ip, &[0; 8]].concat()
        };
        let v6 = |ip: [u8; 16]| {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            [&family[..], &[0, 53], &[0; 4], &ip, &[0; 4]].concat()
        };
        let plain = client_of(&v4(libc::AF_INET as u16, [192, 0, 2, 1]));
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[0xFF, 0xFF, 192, 0, 2, 1]);
        assert_eq!(client_of(&v6(mapped)), plain);
        let mut address = [0x20; 16];
        let first = client_of(&v6(address));
        address[15] = 9;
        assert_eq!(client_of(&v6(address)), first, "the same /64");
        address[7] = 9;
        assert_ne!(client_of(&v6(address)), first);
        assert_eq!(client_of(b""), (false, [0; 8]));
    }
}
