//! The log ring: hits of logging blocks, which the event loop writes to the log.
//!
//! Rule 1: it is bounded, in records and in octets; further records are counted and dropped, because a slow reader must
//!         neither cost memory nor delay a worker.
//! Rule 2: it is locked once per batch, over UDP after the replies were sent; over TCP each hit is a batch.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;

/// The maximum number of records.
pub const MOST_RECORDS: usize = 65_536;
/// The maximum of octets of queries.
pub const MOST_OCTETS: usize = 16 << 20;

/// The counted and logged properties of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplySummary {
    /// Whether it is to be logged.
    pub log: bool,
    /// Octets of the reply without compression and without OPT.
    pub size: u32,
    /// Records of the answer section before truncation.
    pub answers: u16,
}

/// A hit to be logged.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The query as received.
    pub query: &'a [u8],
    /// The client's socket address.
    pub address: &'a [u8],
    /// Whether it was received over TCP.
    pub is_tcp: bool,
    /// The second 16 bits of the header of the reply as sent.
    pub flags: u16,
    /// The counted and logged properties of the reply.
    pub summary: ReplySummary,
    /// The counted duration, in nanoseconds.
    pub elapsed: u64,
}

/// A hit in the log ring.
pub struct Record {
    octets: Box<[u8]>,
    address_at: usize,
    /// Whether it was received over TCP.
    pub is_tcp: bool,
    /// The second 16 bits of the header of the reply as sent.
    pub flags: u16,
    /// The counted and logged properties of the reply.
    pub summary: ReplySummary,
    /// The counted duration, in nanoseconds.
    pub elapsed: u64,
}

impl Record {
    fn new(line: &Line<'_>) -> Self {
        Self {
            octets: [line.query, line.address].concat().into_boxed_slice(),
            address_at: line.query.len(),
            is_tcp: line.is_tcp,
            flags: line.flags,
            summary: line.summary,
            elapsed: line.elapsed,
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
        &self.octets[self.address_at..]
    }
}

/// The log ring of a table.
#[derive(Default)]
pub struct Log {
    inner: Mutex<Inner>,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Record>,
    octets: usize,
}

impl Log {
    /// Add the hits of a batch.
    pub fn push<'a>(&self, lines: impl IntoIterator<Item = Line<'a>>) {
        let mut inner = lock(&self.inner);
        // All at once, so that it never grows under the lock; the kernel provides the memory on first use.
        if inner.waiting.capacity() < MOST_RECORDS {
            inner.waiting.reserve_exact(MOST_RECORDS);
        }
        let mut dropped = 0;
        for line in lines {
            let octets = inner.octets + line.query.len();
            if inner.waiting.len() >= MOST_RECORDS || octets > MOST_OCTETS {
                dropped += 1;
                continue;
            }
            inner.octets = octets;
            inner.waiting.push_back(Record::new(&line));
        }
        self.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    /// Remove and return the oldest records, at most this many.
    pub fn take(&self, most: usize) -> Vec<Record> {
        let mut inner = lock(&self.inner);
        let count = most.min(inner.waiting.len());
        let taken: Vec<_> = inner.waiting.drain(..count).collect();
        inner.octets -= taken
            .iter()
            .map(|record| record.query().len())
            .sum::<usize>();
        taken
    }

    /// Empty it, free its memory, and return the number of its records.
    pub fn discard(&self) -> usize {
        let mut inner = lock(&self.inner);
        inner.octets = 0;
        let discarded = std::mem::take(&mut inner.waiting);
        drop(inner); // a worker waits for the lock, and they are many to free
        discarded.len()
    }

    /// The number of dropped records.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(query: &[u8], elapsed: u64) -> Line<'_> {
        Line {
            query,
            address: &[2, 0, 7],
            is_tcp: true,
            flags: 0x8500,
            summary: ReplySummary {
                log: true,
                size: 90,
                answers: 2,
            },
            elapsed,
        }
    }

    #[test]
    fn records_are_taken_in_order() {
        let log = Log::default();
        assert!(log.take(1).is_empty());
        log.push([line(b"one", 1), line(b"two", 2)]);
        log.push([line(b"three", 3)]);
        let first = log.take(2);
        let second = log.take(usize::MAX);
        let all: Vec<_> = first.iter().chain(&second).collect();
        let seen: Vec<_> = all
            .iter()
            .map(|record| (record.query(), record.elapsed))
            .collect();
        assert_eq!(seen, [(&b"one"[..], 1), (b"two", 2), (b"three", 3)]);
        for record in all {
            assert_eq!(record.address(), [2, 0, 7]);
            assert!(record.is_tcp);
            assert_eq!(
                (record.flags, record.summary),
                (0x8500, line(b"", 0).summary)
            );
        }
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn what_is_discarded_makes_room() {
        let log = Log::default();
        assert_eq!(log.discard(), 0);
        let query = vec![0; 512];
        log.push((0..MOST_OCTETS / 512).map(|_| line(&query, 0)));
        assert_eq!(log.discard(), MOST_OCTETS / 512);
        log.push([line(&query, 7)]);
        assert_eq!(log.take(2)[0].elapsed, 7);
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        for (len, fit) in [(17, MOST_RECORDS), (512, MOST_OCTETS / 512)] {
            let log = Log::default();
            let query = vec![0; len];
            log.push((0..MOST_RECORDS as u64 + 3).map(|at| line(&query, at)));
            assert_eq!(log.dropped(), (MOST_RECORDS + 3 - fit) as u64);
            let oldest = log.take(2);
            assert_eq!([oldest[0].elapsed, oldest[1].elapsed], [0, 1]);
            log.push((0..3).map(|at| line(&query, at)));
            assert_eq!(log.dropped(), (MOST_RECORDS + 4 - fit) as u64);
            let rest = log.take(usize::MAX);
            assert_eq!(rest.len(), fit);
            assert_eq!(rest[fit - 1].elapsed, 1, "the newest that fitted");
            assert!(log.take(1).is_empty());
        }
    }

    #[test]
    fn a_small_record_still_fits_where_a_long_one_does_not() {
        let log = Log::default();
        let long = vec![0; 512];
        log.push((0..MOST_OCTETS / 512 - 1).map(|_| line(&long, 0)));
        log.push([line(&long[..500], 0), line(&long, 0), line(&long[..12], 0)]);
        assert_eq!(log.dropped(), 1);
    }
}
