//! Counts of outcomes by second of the schedule and by kind of question, for hsdns/load/results.py.
//!
//! Rule 1: the slots are those of hsdns/load/histogram.py, so that nothing is rounded twice.
//! Rule 2: a report has only the counts since the previous one, in records of RECORD_LEN octets: what is counted, the
//!         number of the second or kind, a slot or an rcode, and the count.

use hashbrown::HashTable;

use super::in_flight::Waiting;
use super::messages::{LATE, LOST, NOT_SENT, UNSURE};

/// Octets of a record.
pub const RECORD_LEN: usize = 13;
const SECOND: i64 = 1_000_000_000;
/// Nanoseconds.
pub const MICROSECOND: i64 = 1000;
const DIGITS: u32 = 11;
const TC: u32 = 0x0200;
const RCODE: u32 = 0x000F;

/// The counted properties of a second or a kind.
#[derive(Clone, Copy)]
pub enum What {
    /// A slot.
    Lateness = 0,
    /// A slot.
    Latency = 1,
    /// An answer.
    Rcode = 2,
    /// A query.
    Lost = 3,
    /// A query.
    NotSent = 4,
    /// An answer.
    Truncated = 5,
    /// A slot: the time from the sending to the reply.
    Service = 6,
    /// A query that was sent late.
    Late = 7,
    /// A query that was sent late, and lost.
    LateLost = 8,
    /// A reply that no query waits for, by reason.
    Unmatched = 9,
    /// A reply without a time of the kernel.
    Unstamped = 10,
    /// A slot: how long the system call took that sent a query.
    SentWithin = 11,
    /// A datagram that a socket of the sender had no room for.
    Dropped = 12,
}

/// Added to the property if the count is of a kind; otherwise it is of a second.
const OF_KIND: u8 = 16;

/// Counts since the last report.
#[derive(Default)]
pub struct Counts {
    cells: HashTable<(u128, u32)>,
}

impl Counts {
    /// Count an outcome of a query of a kind; `planned` is counted from the start.
    pub fn add(&mut self, kind: u32, planned: i64, waiting: &Waiting, received: i64, flags: u32) {
        let second = second_of(planned);
        let is_late = flags & LATE != 0;
        let places = [(0, second), (OF_KIND, kind)];
        let mut both = |what: What, value: u32| {
            for (of, number) in places {
                self.count(what as u8 + of, number, value, 1);
            }
        };
        if received == NOT_SENT {
            both(What::NotSent, 0);
            return;
        }
        if is_late {
            both(What::Late, 0);
        }
        if received == LOST {
            both(What::Lost, 0);
            if is_late {
                both(What::LateLost, 0);
            }
        } else {
            if flags & UNSURE == 0 {
                both(
                    What::Service,
                    slot_of((received - waiting.sent) / MICROSECOND),
                );
            }
            both(What::Rcode, flags & RCODE);
            both(
                What::Latency,
                slot_of((received - waiting.planned) / MICROSECOND),
            );
            if flags & TC != 0 {
                both(What::Truncated, 0);
            }
        }
        let lateness = slot_of((waiting.sent - waiting.planned) / MICROSECOND);
        self.count(What::Lateness as u8, second, lateness, 1);
    }

    /// Count what is no outcome, at a time after the start.
    pub fn note(&mut self, what: What, time: i64, value: u32, count: u32) {
        self.count(what as u8, second_of(time.max(0)), value, count);
    }

    fn count(&mut self, what: u8, number: u32, value: u32, count: u32) {
        let key = u128::from(what) << 64 | u128::from(number) << 32 | u128::from(value);
        let entry = self
            .cells
            .entry(hash(key), |cell| cell.0 == key, |cell| hash(cell.0));
        entry.or_insert((key, 0)).get_mut().1 += count;
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The octets of the report.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len() * RECORD_LEN
    }

    /// Write the report, and reset the counts.
    pub fn take(&mut self, octets: &mut Vec<u8>) {
        for (key, count) in self.cells.drain() {
            octets.push((key >> 64) as u8);
            octets.extend_from_slice(&((key >> 32) as u32).to_ne_bytes());
            octets.extend_from_slice(&(key as u32).to_ne_bytes());
            octets.extend_from_slice(&count.to_ne_bytes());
        }
    }
}

fn second_of(time: i64) -> u32 {
    u32::try_from(time / SECOND).unwrap_or(u32::MAX)
}

/// The slot of a value; negative values are in the slot of 0.
#[must_use]
pub fn slot_of(value: i64) -> u32 {
    let value = u64::try_from(value).unwrap_or(0);
    if value < 1 << DIGITS {
        return value as u32;
    }
    let shift = u64::BITS - value.leading_zeros() - DIGITS;
    (shift << (DIGITS - 1)) + (value >> shift) as u32
}

/// Keys are small numbers that no client chooses: multiplication distributes them over the high and the low bits.
fn hash(key: u128) -> u64 {
    let mixed =
        ((key >> 32) as u64 ^ (key as u64).rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 29
}
