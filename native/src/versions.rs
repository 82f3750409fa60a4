//! Version counters: what an entry was computed from has not changed while its counters have not.
//!
//! Rule 1: an event bumps the counters of all it touches, after the data changed and before anyone may answer anew.
//! Rule 2: an entry keeps (index, value) pairs read before its data were read, and is a hit only while all are equal.
//!         So a late learner cannot poison the table, and an event costs nothing per name.
//! Rule 3: whoever found an entry true notes how many changes there had been in all: until the next one nobody looks at
//!         its counters again, which lie wherever the hash put them.
//! Rule 4: an index stands for many things (it is a hash); a collision costs a miss, never a stale answer.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::system::prefetch;

/// How many counters there are: 512 KiB, and few collisions among some thousand Services.
pub const SIZE: usize = 65_536;

/// Counters shared by all tables and workers of a process.
pub struct Versions {
    counters: Box<[AtomicU64]>,
    changes: AtomicU64,
}

/// A counter and the value that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which counter, modulo `SIZE`.
    pub index: u16,
    /// What it read.
    pub value: u64,
}

impl Pair {
    /// Octets of one.
    pub const LEN: usize = 10;

    /// Write it down.
    #[must_use]
    pub fn to_octets(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..2].copy_from_slice(&self.index.to_ne_bytes());
        octets[2..].copy_from_slice(&self.value.to_ne_bytes());
        octets
    }

    /// Read what was written down.
    ///
    /// # Panics
    /// Where there are not `LEN` octets.
    #[must_use]
    pub fn from_octets(octets: &[u8]) -> Self {
        let octets: [u8; Self::LEN] = octets.try_into().expect("a whole pair");
        let [i0, i1, value @ ..] = octets;
        Self {
            index: u16::from_ne_bytes([i0, i1]),
            value: u64::from_ne_bytes(value),
        }
    }
}

impl Versions {
    /// Make counters that all stand at 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counters: (0..SIZE).map(|_| AtomicU64::new(0)).collect(),
            changes: AtomicU64::new(0),
        }
    }

    /// Say that something behind this index has changed.
    pub fn bump(&self, index: u16) {
        self.counters[usize::from(index)].fetch_add(1, Ordering::Release);
        // After the counter: whoever sees the new number sees that counter, too.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// How many changes there have been in all.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Read a counter.
    #[must_use]
    pub fn read(&self, index: u16) -> u64 {
        self.counters[usize::from(index)].load(Ordering::Acquire)
    }

    /// Tell whether a counter has not moved.
    #[must_use]
    pub fn hold(&self, pair: Pair) -> bool {
        self.read(pair.index) == pair.value
    }

    /// Ask for the memory of a counter that will be read.
    pub fn prefetch(&self, index: u16) {
        prefetch(&self.counters[usize::from(index)]);
    }
}

impl Default for Versions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bump_ends_what_was_read_before() {
        let versions = Versions::new();
        let pairs = [7, 65_535].map(|index| Pair {
            index,
            value: versions.read(index),
        });
        let held = || pairs.map(|pair| versions.hold(pair));
        assert_eq!(held(), [true, true]);
        versions.bump(8);
        assert_eq!(held(), [true, true]);
        versions.bump(65_535);
        assert_eq!(held(), [true, false]);
        assert_eq!(versions.read(65_535), 1);
        assert_eq!(versions.changes(), 2);
    }

    #[test]
    fn pairs_can_be_written_down() {
        for (index, value) in [(0, 0), (258, 1), (65_535, u64::MAX)] {
            let pair = Pair { index, value };
            assert_eq!(Pair::from_octets(&pair.to_octets()), pair);
        }
    }
}
