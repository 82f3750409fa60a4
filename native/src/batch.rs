//! One bound UDP socket: receives a batch of queries, sends the hits of the table, and keeps the misses.
//!
//! Rule 1: each batch takes one recvmmsg and one sendmmsg.  The table is locked only between them.  The clock is read
//!         before the first lookup and after the last one, because the time for sending is not the table's.
//! Rule 2: a reply is sent from the address that the query was sent to (RFC 2181 section 4.1): a wildcard socket
//!         receives IP_PKTINFO or IPV6_PKTINFO with each query, and sends it with the reply without the interface, so
//!         that routing chooses one; a link-local address keeps its interface, without which it is ambiguous.
//! Rule 3: replies are stored one after another in one buffer; replies of equal length to one client are sent together
//!         (segmentation.rs); a reply that cannot be sent is counted and dropped.
//! Rule 4: hits are added to the log ring (log.rs) and to the tap (tap.rs) after their replies were sent.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::forward::take;
use crate::hit_counts::BatchCounts;
use crate::key::{Reader, u16_at};
use crate::lock::lock;
use crate::log::{Line, ReplySummary};
use crate::outlet::Outlet;
use crate::system::{Message, Packet, Receiver, Sender, monotonic};
use crate::table::{AnswerTable, Client, Reading};
use crate::tap::{Answered, Tap};

/// How many queries are looked up at once: enough to hide the latency of memory, few enough to stay in the cache.
const AT_ONCE: usize = 16;

/// Counters of one socket; written by the thread that serves it, read for /metrics.
#[derive(Default)]
pub struct Meter {
    received: AtomicU64,
    sent: AtomicU64,
    batches: AtomicU64,
    panics: AtomicU64,
    send_errors: Mutex<BTreeMap<i32, u64>>,
    receive_errors: Mutex<BTreeMap<i32, u64>>,
}

/// The values of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Calls that received any datagram.
    pub batches: u64,
    /// Replies that could not be sent, by errno.
    pub send_errors: BTreeMap<i32, u64>,
    /// Calls that failed, except those that found no datagram, by errno.
    pub receive_errors: BTreeMap<i32, u64>,
    /// Panics of the worker.
    pub panics: u64,
}

impl Meter {
    /// Read all.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            received: self.received.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            send_errors: lock(&self.send_errors).clone(),
            receive_errors: lock(&self.receive_errors).clone(),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }

    /// Count a panic.
    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Count a call that failed.
    pub fn count_receive_error(&self, errno: i32) {
        *lock(&self.receive_errors).entry(errno).or_default() += 1;
    }

    /// Send replies and count.  `reply(index)` gives each.
    pub fn send<'a>(
        &self,
        sender: &mut Sender,
        fd: RawFd,
        count: usize,
        reply: impl Fn(usize) -> Message<'a>,
    ) {
        let sent = sender.send(fd, count, reply, |errno, count| {
            *lock(&self.send_errors).entry(errno).or_default() += count as u64;
        });
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// Serves one socket, batch by batch.
pub struct Batch {
    fd: RawFd,
    meter: Arc<Meter>,
    receiver: Receiver,
    sender: Sender,
    readers: [Reader; AT_ONCE],
    counts: BatchCounts,
    replies: Vec<u8>,
    hits: Vec<Hit>,
    missed: Vec<usize>,
    /// The missed queries for names of Services.
    listed: Vec<usize>,
    logged: Vec<Logged>,
}

struct Hit {
    datagram: usize,
    reply: Range<usize>,
    control: ReplyControl,
}

struct Logged {
    hit: usize,
    summary: ReplySummary,
}

impl Batch {
    /// Serve a socket that its owner keeps open; `wildcard`: it is bound to all addresses and receives packet info.
    #[must_use]
    pub fn new(fd: RawFd, wildcard: bool, meter: Arc<Meter>) -> Self {
        Self {
            fd,
            meter,
            receiver: Receiver::new(wildcard),
            sender: Sender::default(),
            readers: std::array::from_fn(|_| Reader::default()),
            counts: BatchCounts::default(),
            replies: Vec::new(),
            hits: Vec::new(),
            missed: Vec::new(),
            listed: Vec::new(),
            logged: Vec::new(),
        }
    }

    /// Receive a batch and answer the hits of the table; `missed` gives the rest.  With `wait` wait for the first
    /// datagram.
    ///
    /// # Errors
    /// The kernel's error; an empty receive buffer is no error.
    pub fn serve(&mut self, table: Option<&AnswerTable>, wait: bool) -> io::Result<()> {
        let received = self.receive(wait)?;
        self.answer(table, received);
        Ok(())
    }

    /// Receive a batch, in place of the last one; with `wait` wait for the first datagram.  Return their number.
    ///
    /// # Errors
    /// The kernel's error; an empty receive buffer is no error.
    pub fn receive(&mut self, wait: bool) -> io::Result<usize> {
        self.replies.clear();
        self.hits.clear();
        self.missed.clear();
        self.listed.clear();
        self.logged.clear();
        match self.receiver.receive(self.fd, wait) {
            Err(error) if is_nothing(&error) => Ok(0),
            result => result,
        }
    }

    /// Answer the hits of the table in the received batch.
    pub fn answer(&mut self, table: Option<&AnswerTable>, received: usize) {
        if received == 0 {
            return;
        }
        self.meter.batches.fetch_add(1, Ordering::Relaxed);
        self.meter
            .received
            .fetch_add(received as u64, Ordering::Relaxed);
        let elapsed = match table {
            Some(table) => self.look_up(table, received),
            None => {
                self.missed.extend(0..received);
                0
            }
        };
        let (receiver, replies, hits) = (&self.receiver, &self.replies, &self.hits);
        let message = |index: usize| {
            let hit: &Hit = &hits[index];
            Message {
                reply: &replies[hit.reply.clone()],
                address: receiver.packet(hit.datagram).address,
                control: hit.control.octets(),
            }
        };
        self.meter
            .send(&mut self.sender, self.fd, hits.len(), message);
        let Some(table) = table else { return };
        if !self.logged.is_empty() {
            self.log(table, elapsed);
        }
        if let Some((tap, source)) = table.open_tap() {
            self.feed(tap, source, elapsed);
        }
    }

    /// Let the routes of the table take what was not answered.
    pub fn forward(&mut self, table: &Arc<AnswerTable>, outlet: &Arc<Outlet>) {
        let (receiver, reader, now) = (&self.receiver, &mut self.readers[0], monotonic());
        self.missed
            .retain(|&index| !take(table, outlet, &receiver.packet(index), reader, now));
    }

    /// The datagrams of the last batch that were not answered.
    pub fn missed(&self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        self.missed.iter().map(|&index| self.receiver.packet(index))
    }

    /// Those of them for names of existing Services, and the others.
    #[must_use]
    pub fn missed_apart(&self) -> [Vec<Packet<'_>>; 2] {
        let (listed, others) = self
            .missed
            .iter()
            .partition::<Vec<usize>, _>(|index| self.listed.contains(index));
        [listed, others].map(|some| {
            some.iter()
                .map(|&index| self.receiver.packet(index))
                .collect()
        })
    }

    /// Discard a batch that was interrupted by a panic.
    pub fn reset(&mut self) {
        self.counts = BatchCounts::default();
        self.missed.clear();
        self.listed.clear();
    }

    /// Look up all datagrams; return the duration in nanoseconds.
    fn look_up(&mut self, table: &AnswerTable, received: usize) -> u64 {
        let start = monotonic();
        let reading = table.open();
        for first in (0..received).step_by(AT_ONCE) {
            self.look_some_up(&reading, first..received.min(first + AT_ONCE), start);
        }
        drop(reading);
        self.missed.sort_unstable(); // as they came
        let elapsed = monotonic().saturating_sub(start);
        table.count(&mut self.counts, false, elapsed);
        elapsed
    }

    /// Look up in three passes, so that the memory of one entry is fetched while others are looked up: with 100,000
    /// names that saves 0.2 us of the 0.5 us of a query (examples/lookup.rs).
    fn look_some_up(&mut self, reading: &Reading<'_>, datagrams: Range<usize>, now: u64) {
        let mut queries = [None; AT_ONCE];
        for ((datagram, reader), place) in datagrams.zip(&mut self.readers).zip(&mut queries) {
            let packet = self.receiver.packet(datagram);
            let query = reader.read(packet.query).filter(|_| !packet.is_cut);
            *place = query.map(|query| (datagram, query, reading.locate(&query)));
            if place.is_none() {
                self.counts.totals.not_plain += 1;
                self.missed.push(datagram);
            }
        }
        for (_, _, place) in queries.iter().flatten() {
            reading.prefetch(*place);
        }
        for (datagram, query, place) in queries.iter().flatten() {
            let packet = self.receiver.packet(*datagram);
            let client = Client {
                is_ipv6: is_ipv6(packet.address),
                is_tcp: false,
                now,
            };
            let limit = query.udp_limit();
            let at = self.replies.len();
            let (replies, counts) = (&mut self.replies, &mut self.counts);
            if let Some(summary) = reading.answer(query, *place, limit, client, replies, counts) {
                if summary.log {
                    let hit = self.hits.len();
                    self.logged.push(Logged { hit, summary });
                }
                self.hits.push(Hit {
                    datagram: *datagram,
                    reply: at..self.replies.len(),
                    control: ReplyControl::new(packet.control),
                });
            } else {
                self.missed.push(*datagram);
                if reading.is_listed(query) {
                    self.listed.push(*datagram);
                }
            }
        }
    }

    /// Return whether any missed query is for the name of a Service.
    #[must_use]
    pub fn has_listed(&self) -> bool {
        !self.listed.is_empty()
    }

    fn log(&self, table: &AnswerTable, elapsed: u64) {
        table.log().push(self.logged.iter().map(|logged| {
            let hit = &self.hits[logged.hit];
            let packet = self.receiver.packet(hit.datagram);
            Line {
                query: packet.query,
                address: packet.address,
                is_tcp: false,
                flags: u16_at(&self.replies, hit.reply.start + 2),
                summary: logged.summary,
                elapsed,
            }
        }));
    }

    fn feed(&self, tap: &Tap, source: u32, elapsed: u64) {
        if self.hits.is_empty() {
            return;
        }
        let at = monotonic();
        tap.push(self.hits.iter().map(|hit| {
            let packet = self.receiver.packet(hit.datagram);
            Answered {
                query: packet.query,
                address: packet.address,
                source,
                is_tcp: false,
                is_hit: true,
                flags: Some(u16_at(&self.replies, hit.reply.start + 2)),
                size: hit.reply.len(),
                elapsed,
                at,
            }
        }));
    }
}

/// Return whether an error means that there is no socket; others concern earlier datagrams, or are temporary.
#[must_use]
pub fn is_final(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK))
}

/// Return whether a receive call found nothing to receive.
fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Return whether a socket address is an IPv6 one that is not IPv4-mapped.
#[must_use]
pub fn is_ipv6(address: &[u8]) -> bool {
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
    match address {
        [low, high, _, _, _, _, _, _, ip @ ..] => {
            i32::from(u16::from_ne_bytes([*low, *high])) == libc::AF_INET6
                && !ip.starts_with(&MAPPED)
        }
        _ => false,
    }
}

//----- Control messages ------------------------------------------------------

const CMSG_HEADER_LEN: usize = size_of::<libc::cmsghdr>();
const WORD_LEN: usize = size_of::<usize>();
const LEVEL: Range<usize> = WORD_LEN..WORD_LEN + 4;
const KIND: Range<usize> = WORD_LEN + 4..WORD_LEN + 8;
const MAX_CONTROL_LEN: usize = CMSG_HEADER_LEN + 24;

/// The control message that gives a reply the destination address of its query as source address.
#[derive(Clone, Copy, Debug)]
pub struct ReplyControl {
    octets: [u8; MAX_CONTROL_LEN],
    len: usize,
}

impl ReplyControl {
    /// Make it from the control messages of the query; empty if none of them has the address.
    #[must_use]
    pub fn new(received: &[u8]) -> Self {
        let mut control = Self {
            octets: [0; MAX_CONTROL_LEN],
            len: 0,
        };
        let mut rest = received;
        while rest.len() >= CMSG_HEADER_LEN {
            let (header, body) = rest.split_at(CMSG_HEADER_LEN);
            let len = header[..WORD_LEN]
                .try_into()
                .map_or(0, usize::from_ne_bytes);
            let Some(data) = len
                .checked_sub(CMSG_HEADER_LEN)
                .and_then(|len| body.get(..len))
            else {
                break;
            };
            let [level, kind] =
                [LEVEL, KIND].map(|part| header[part].try_into().map_or(0, i32::from_ne_bytes));
            match (level, kind, data.len()) {
                // in_pktinfo: interface, address to send from, destination address of the query
                (libc::IPPROTO_IP, libc::IP_PKTINFO, 12) => {
                    control.set(header, [&[0; 4], &data[4..8], &[0; 4]]);
                }
                // in6_pktinfo: address, interface
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20) => {
                    let is_link_local = data[0] == 0xFE && data[1] & 0xC0 == 0x80;
                    let interface: &[u8] = if is_link_local { &data[16..] } else { &[0; 4] };
                    control.set(header, [&data[..16], interface, &[]]);
                }
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(WORD_LEN)..).unwrap_or(&[]);
        }
        control
    }

    /// Its octets, without padding: the kernel allocates memory for more than 36.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn set(&mut self, header: &[u8], data: [&[u8]; 3]) {
        self.len = 0;
        for part in [header].into_iter().chain(data) {
            let end = self.len + part.len();
            self.octets[self.len..end].copy_from_slice(part);
            self.len = end;
        }
    }
}
