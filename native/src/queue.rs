//! The queue of misses, from the workers to the event loop.
//!
//! Rule 1: it is bounded, in number and in octets; what does not fit is counted and dropped, as the network would drop
//!         it.
//! Rule 2: its descriptor is readable exactly while the queue is not empty: it is set and cleared under the lock.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;
use crate::system::{Event, Packet};

/// How many octets there may be for each miss, on average.
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
    fn new(worker: usize, packet: &Packet<'_>) -> Self {
        Self {
            worker,
            octets: [packet.query, packet.address, packet.control]
                .concat()
                .into_boxed_slice(),
            address_at: packet.query.len(),
            control_at: packet.query.len() + packet.address.len(),
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

    /// The control messages that came with it.
    #[must_use]
    pub fn control(&self) -> &[u8] {
        &self.octets[self.control_at..]
    }
}

/// The queue of all workers.
pub struct MissQueue {
    event: Event,
    capacity: usize,
    inner: Mutex<Inner>,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Waiting>,
    octets: usize,
}

impl MissQueue {
    /// Make an empty queue for so many misses.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(capacity: usize) -> io::Result<Self> {
        Ok(Self {
            event: Event::new()?,
            capacity,
            inner: Mutex::default(),
            dropped: AtomicU64::new(0),
        })
    }

    /// The file descriptor that is readable while the queue is not empty.
    #[must_use]
    pub fn fileno(&self) -> RawFd {
        self.event.fileno()
    }

    /// How many misses did not fit.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Add the misses of a batch.
    pub fn offer<'a>(&self, worker: usize, misses: impl ExactSizeIterator<Item = Packet<'a>>) {
        if misses.len() == 0 {
            return;
        }
        let mut inner = lock(&self.inner);
        let was_empty = inner.waiting.is_empty();
        for packet in misses {
            let octets = packet.query.len();
            if inner.waiting.len() >= self.capacity
                || inner.octets + octets > self.capacity.saturating_mul(OCTETS_PER_MISS)
            {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            inner.octets += octets;
            inner.waiting.push_back(Waiting::new(worker, &packet));
        }
        if was_empty && !inner.waiting.is_empty() {
            self.event.set();
        }
    }

    /// Take the oldest misses, at most so many.
    pub fn take(&self, most: usize) -> Vec<Waiting> {
        let mut inner = lock(&self.inner);
        let was_empty = inner.waiting.is_empty();
        let count = most.min(inner.waiting.len());
        let taken: Vec<_> = inner.waiting.drain(..count).collect();
        inner.octets -= taken
            .iter()
            .map(|waiting| waiting.query().len())
            .sum::<usize>();
        if !was_empty && inner.waiting.is_empty() {
            self.event.clear();
        }
        taken
    }
}
