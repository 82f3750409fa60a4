//! The tap: the last queries, or a fair sample of those since it was emptied, for inspecting the server.
//!
//! Rule 1: while closed, it costs one relaxed load per batch.  While open, it is locked once per batch, after the
//!         replies were sent, and never waits for its reader: the reader exchanges the contents for an empty buffer
//!         under that lock.
//! Rule 2: memory is bounded: `LAST` or `SAMPLE` queries of fixed size, reserved when it is opened.
//! Rule 3: a sample is a reservoir (algorithm R): each query since it was emptied is in it with the same probability,
//!         in whatever order they arrived, and the total number of queries is exact.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::lock::lock;

/// The number of last queries.
pub const LAST: usize = 1024;
/// The size of the sample of the queries since it was emptied.
pub const SAMPLE: usize = 256;
/// Header, name, type and class: the stored part of a query.
pub const MAX_QUERY_LEN: usize = 12 + 255 + 4;
const MAX_ADDRESS_LEN: usize = 28;

/// The modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing.
    #[default]
    Closed = 0,
    /// The last queries; new ones replace the oldest.
    Last = 1,
    /// A fair sample.
    Sample = 2,
}

impl Mode {
    /// The mode of a number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        [Self::Closed, Self::Last, Self::Sample]
            .into_iter()
            .find(|&each| each as u8 == number)
    }

    fn room(self) -> usize {
        match self {
            Self::Closed => 0,
            Self::Last => LAST,
            Self::Sample => SAMPLE,
        }
    }
}

/// An answered query.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The query as received.
    pub query: &'a [u8],
    /// The client's socket address.
    pub address: &'a [u8],
    /// The number of its listener.
    pub source: u32,
    /// Whether it was received over TCP.
    pub is_tcp: bool,
    /// Whether the answer table had the reply.
    pub is_hit: bool,
    /// The second 16 bits of the header of the reply as sent; none if none was sent.
    pub flags: Option<u16>,
    /// Octets of the reply as sent.
    pub size: usize,
    /// The time to the answer, in nanoseconds.
    pub elapsed: u64,
    /// The time of the answer, in nanoseconds of the monotonic clock.
    pub at: u64,
}

/// A query in the tap.
#[derive(Clone)]
pub struct Record {
    octets: [u8; MAX_QUERY_LEN + MAX_ADDRESS_LEN],
    query_len: u16,
    address_len: u16,
    /// The number of its listener.
    pub source: u32,
    /// Whether it was received over TCP.
    pub is_tcp: bool,
    /// Whether the answer table had the reply.
    pub is_hit: bool,
    /// The second 16 bits of the header of the reply as sent; none if none was sent.
    pub flags: Option<u16>,
    /// Octets of the reply as sent.
    pub size: usize,
    /// The time to the answer, in nanoseconds.
    pub elapsed: u64,
    /// The time of the answer, in nanoseconds of the monotonic clock.
    pub at: u64,
}

impl Record {
    const EMPTY: Self = Self {
        octets: [0; MAX_QUERY_LEN + MAX_ADDRESS_LEN],
        query_len: 0,
        address_len: 0,
        source: 0,
        is_tcp: false,
        is_hit: false,
        flags: None,
        size: 0,
        elapsed: 0,
        at: 0,
    };

    /// The query, without what follows its question if it is long.
    #[must_use]
    pub fn query(&self) -> &[u8] {
        &self.octets[..usize::from(self.query_len)]
    }

    /// The client's socket address.
    #[must_use]
    pub fn address(&self) -> &[u8] {
        &self.octets[MAX_QUERY_LEN..][..usize::from(self.address_len)]
    }

    fn set(&mut self, answered: &Answered<'_>) {
        let query = &answered.query[..answered.query.len().min(MAX_QUERY_LEN)];
        let address = &answered.address[..answered.address.len().min(MAX_ADDRESS_LEN)];
        self.octets[..query.len()].copy_from_slice(query);
        self.octets[MAX_QUERY_LEN..][..address.len()].copy_from_slice(address);
        // Both are bounded by the size of `octets`.
        self.query_len = query.len() as u16;
        self.address_len = address.len() as u16;
        self.source = answered.source;
        self.is_tcp = answered.is_tcp;
        self.is_hit = answered.is_hit;
        self.flags = answered.flags;
        self.size = answered.size;
        self.elapsed = answered.elapsed;
        self.at = answered.at;
    }
}

/// The tap of a process.
#[derive(Default)]
pub struct Tap {
    mode: AtomicU8,
    filling: Mutex<Buffer>,
    /// The buffer that take() reads, and exchanges for the one that workers fill next.
    spare: Mutex<Vec<Record>>,
}

#[derive(Default)]
struct Buffer {
    mode: Mode,
    records: Vec<Record>,
    seen: u64,
    chance: u64,
}

impl Tap {
    /// Return whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != Mode::Closed as u8
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        Mode::of(self.mode.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Set the mode; the contents are dropped, so the caller takes them before.
    pub fn set_mode(&self, mode: Mode) {
        let records = vec![Record::EMPTY; mode.room()];
        let mut spare = lock(&self.spare); // before the other one, as in take()
        spare.clone_from(&records);
        let mut buffer = lock(&self.filling);
        *buffer = Buffer {
            mode,
            records,
            seen: 0,
            chance: buffer.chance,
        };
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Add the queries of a batch.
    pub fn push<'a>(&self, answers: impl IntoIterator<Item = Answered<'a>>) {
        let mut buffer = lock(&self.filling);
        for each in answers {
            buffer.push(&each);
        }
    }

    /// Remove and return the contents, oldest first, with the number of all queries since the last call.
    pub fn take<T>(&self, convert: impl FnMut(&Record) -> T) -> (u64, Vec<T>) {
        let mut spare = lock(&self.spare);
        let (seen, mode) = {
            let mut buffer = lock(&self.filling);
            std::mem::swap(&mut buffer.records, &mut spare);
            (std::mem::take(&mut buffer.seen), buffer.mode)
        };
        let room = spare.len() as u64;
        let begin = match mode {
            Mode::Last if seen > room => (seen % room) as usize,
            _ => 0,
        };
        let count = seen.min(room) as usize;
        let (newest, oldest) = spare[..count].split_at_mut(begin);
        if mode == Mode::Sample {
            oldest.sort_by_key(|record| record.at);
        }
        let taken = oldest.iter().chain(newest.iter()).map(convert).collect();
        (seen, taken)
    }
}

impl Buffer {
    fn push(&mut self, answered: &Answered<'_>) {
        let (room, seen) = (self.records.len() as u64, self.seen);
        if room == 0 {
            return; // it was closed meanwhile
        }
        self.seen += 1;
        let place = match self.mode {
            Mode::Sample if seen >= room => self.below(seen + 1),
            _ => seen % room,
        };
        if place < room {
            self.records[place as usize].set(answered);
        }
    }

    /// A number below another one, evenly distributed (SplitMix64).
    fn below(&mut self, end: u64) -> u64 {
        self.chance = self.chance.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.chance;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * u128::from(end)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(query: &[u8], at: u64) -> Answered<'_> {
        Answered {
            query,
            address: &[2, 0, 7],
            source: 5,
            is_tcp: true,
            is_hit: false,
            flags: Some(0x8583),
            size: 90,
            elapsed: 3,
            at,
        }
    }

    fn times(tap: &Tap) -> (u64, Vec<u64>) {
        tap.take(|record| record.at)
    }

    #[test]
    fn a_closed_tap_takes_nothing() {
        let tap = Tap::default();
        assert!(!tap.is_open());
        tap.push([answered(b"one", 1)]);
        assert_eq!(times(&tap), (0, vec![]));
    }

    #[test]
    fn records_have_what_was_given() {
        let tap = Tap::default();
        tap.set_mode(Mode::Last);
        let long = vec![7; 600];
        tap.push([answered(b"one", 1), answered(&long, 2)]);
        let (seen, records) = tap.take(Record::clone);
        assert_eq!(seen, 2);
        assert_eq!(records[0].query(), b"one");
        assert_eq!(records[1].query(), &long[..MAX_QUERY_LEN]);
        for record in &records {
            assert_eq!(record.address(), [2, 0, 7]);
            assert_eq!(
                (record.source, record.is_tcp, record.is_hit),
                (5, true, false)
            );
            assert_eq!(
                (record.flags, record.size, record.elapsed),
                (Some(0x8583), 90, 3)
            );
        }
    }

    #[test]
    fn the_last_are_taken_in_order() {
        let tap = Tap::default();
        tap.set_mode(Mode::Last);
        for count in [1, LAST as u64, LAST as u64 + 3, 3 * LAST as u64] {
            tap.push((0..count).map(|at| answered(b"", at)));
            let first = count.saturating_sub(LAST as u64);
            assert_eq!(times(&tap), (count, (first..count).collect()));
        }
    }

    #[test]
    fn a_sample_is_fair() {
        let tap = Tap::default();
        tap.set_mode(Mode::Sample);
        let mut quarters = [0; 4];
        let (count, rounds) = (4 * SAMPLE as u64, 200);
        for _ in 0..rounds {
            tap.push((0..count).map(|at| answered(b"", at)));
            let (seen, taken) = times(&tap);
            assert_eq!((seen, taken.len()), (count, SAMPLE));
            assert!(taken.is_sorted());
            for at in taken {
                quarters[(at * 4 / count) as usize] += 1;
            }
        }
        let even = rounds * SAMPLE / 4;
        for quarter in quarters {
            assert!(
                (even * 9 / 10..=even * 11 / 10).contains(&quarter),
                "{quarters:?}"
            );
        }
        tap.push((0..SAMPLE as u64).map(|at| answered(b"", at)));
        assert_eq!(times(&tap).1.len(), SAMPLE, "all, as far as they fit");
    }

    #[test]
    fn a_mode_begins_empty() {
        let tap = Tap::default();
        tap.set_mode(Mode::Last);
        tap.push([answered(b"", 1)]);
        tap.set_mode(Mode::Sample);
        assert_eq!(times(&tap), (0, vec![]));
        tap.set_mode(Mode::Closed);
        tap.push([answered(b"", 1)]);
        assert_eq!((tap.mode(), times(&tap)), (Mode::Closed, (0, vec![])));
    }
}
