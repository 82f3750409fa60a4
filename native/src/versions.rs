//! Version counters, which show whether a stored reply is stale.
//!
//! Rule 1: an event increments the counters of all data that it changes, after the change and before any reply is
//!         computed from the new data.
//! Rule 2: an entry has the values of its counters that were read before its data, and is a hit only while all are the
//!         same.  So a reply that is stored late cannot be a hit after the event, and an event costs nothing per name.
//! Rule 3: an entry that is found valid stores the number of all changes so far: until the next change its counters,
//!         which are spread over memory, need not be read.
//! Rule 4: counters are valid for a store only while its writer follows the cluster, which it shows by renewing a
//!         lease.  Replies that depend on counters are misses after the lease has ended.
//! Rule 5: an index is a hash and represents many things; a collision costs a miss, never a stale answer.
//! Rule 6: while a thread holds its increments, each thread its own, replies are computed and stored with the new
//!         values, and entries with the old ones stay valid as well.  So replies to an event can be stored before any
//!         query misses.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use crate::lock::lock;
use crate::system::prefetch;

/// The number of counters: 512 KiB, and few collisions among some thousand Services.
pub const SIZE: usize = 65_536;

/// Counters shared by all tables and workers of a process.
pub struct Versions {
    counters: Box<[Counter]>,
    changes: AtomicU64,
    lease_end: AtomicU64,
    held: Mutex<Vec<Held>>,
}

#[derive(Default)]
struct Counter {
    /// The value of entries that are valid until an increment that is held is made.
    current: AtomicU64,
    /// The value for replies that are computed now, which are valid too; above `current` while an increment is held.
    next: AtomicU64,
}

/// The increments that a thread holds.
struct Held {
    thread: ThreadId,
    indexes: Vec<u16>,
}

/// A counter and the value that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Which counter, modulo `SIZE`.
    pub index: u16,
    /// Its value when it was read.
    pub value: u64,
}

impl Dependency {
    /// Its length in octets.
    pub const LEN: usize = 10;

    /// Its octets, as entries store them.
    #[must_use]
    pub fn to_octets(self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        octets[..2].copy_from_slice(&self.index.to_ne_bytes());
        octets[2..].copy_from_slice(&self.value.to_ne_bytes());
        octets
    }

    /// Read its octets.
    ///
    /// # Panics
    /// If there are not `LEN` octets.
    #[must_use]
    pub fn from_octets(octets: &[u8]) -> Self {
        let octets: [u8; Self::LEN] = octets.try_into().expect("LEN octets");
        let [i0, i1, value @ ..] = octets;
        Self {
            index: u16::from_ne_bytes([i0, i1]),
            value: u64::from_ne_bytes(value),
        }
    }
}

impl Versions {
    /// Make counters that are all 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counters: (0..SIZE).map(|_| Counter::default()).collect(),
            changes: AtomicU64::new(0),
            lease_end: AtomicU64::new(u64::MAX),
            held: Mutex::new(Vec::new()),
        }
    }

    /// Invalidate the replies that depend on a counter: at once, or when this thread releases what it holds.
    pub fn bump(&self, index: u16) {
        self.counters[usize::from(index)]
            .next
            .fetch_add(1, Ordering::Release);
        let this = thread::current().id();
        if let Some(held) = lock(&self.held).iter_mut().find(|held| held.thread == this) {
            held.indexes.push(index);
            return;
        }
        self.publish(index);
    }

    /// Hold the increments that this thread makes until it calls `release`.
    pub fn hold(&self) {
        let thread = thread::current().id();
        self.release();
        lock(&self.held).push(Held {
            thread,
            indexes: Vec::new(),
        });
    }

    /// The counters whose increments this thread holds, in the order of the increments.
    #[must_use]
    pub fn held(&self) -> Vec<u16> {
        let this = thread::current().id();
        lock(&self.held)
            .iter()
            .find(|held| held.thread == this)
            .map_or_else(Vec::new, |held| held.indexes.clone())
    }

    /// Make all increments that this thread holds.
    pub fn release(&self) {
        let this = thread::current().id();
        let mut all = lock(&self.held);
        let own = all.iter().position(|held| held.thread == this);
        let held = own.map(|at| all.swap_remove(at));
        drop(all);
        for index in held.map_or_else(Vec::new, |held| held.indexes) {
            self.publish(index);
        }
    }

    fn publish(&self, index: u16) {
        let counter = &self.counters[usize::from(index)];
        // The larger one, because threads may increment the same counter at the same time.
        counter
            .current
            .fetch_max(counter.next.load(Ordering::Acquire), Ordering::Release);
        // After the counter: a thread that sees the new number also sees the counter.
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// The number of all changes so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Read a counter, with increments that are held: the value for a reply that is computed now.
    #[must_use]
    pub fn read(&self, index: u16) -> u64 {
        self.counters[usize::from(index)]
            .next
            .load(Ordering::Acquire)
    }

    /// Return whether a counter has not changed, with or without the increments that are held.
    #[must_use]
    pub fn is_unchanged(&self, dependency: Dependency) -> bool {
        let counter = &self.counters[usize::from(dependency.index)];
        counter.current.load(Ordering::Acquire) == dependency.value
            || counter.next.load(Ordering::Acquire) == dependency.value
    }

    /// Let replies that depend on counters be valid until `end`, in nanoseconds of the monotonic clock.
    pub fn renew_lease(&self, end: u64) {
        self.lease_end.store(end, Ordering::Release);
    }

    /// Return whether replies that depend on counters are valid; always without a lease.
    #[must_use]
    pub fn is_leased(&self, now: u64) -> bool {
        now < self.lease_end.load(Ordering::Relaxed)
    }

    /// Prefetch a counter.
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
        let dependencies = [7, 65_535].map(|index| Dependency {
            index,
            value: versions.read(index),
        });
        let held = || dependencies.map(|dependency| versions.is_unchanged(dependency));
        assert_eq!(held(), [true, true]);
        versions.bump(8);
        assert_eq!(held(), [true, true]);
        versions.bump(65_535);
        assert_eq!(held(), [true, false]);
        assert_eq!(versions.read(65_535), 1);
        assert_eq!(versions.changes(), 2);
    }

    #[test]
    fn increments_that_are_held_count_when_they_are_released() {
        let versions = Versions::new();
        let at = |value| Dependency { index: 7, value };
        let valid = || [0, 1, 2].map(|value| versions.is_unchanged(at(value)));
        versions.hold();
        versions.bump(7);
        assert_eq!((versions.read(7), versions.held()), (1, vec![7]));
        assert_eq!((valid(), versions.changes()), ([true, true, false], 0));
        thread::scope(|scope| {
            scope.spawn(|| versions.bump(8));
        });
        assert_eq!((versions.held(), versions.changes()), (vec![7], 1));
        versions.release();
        assert_eq!((valid(), versions.changes()), ([false, true, false], 2));
        assert_eq!(versions.held(), vec![0_u16; 0]);
        versions.bump(7);
        assert_eq!(valid(), [false, false, true]);
        versions.release();
        assert_eq!(versions.changes(), 3);
    }

    #[test]
    fn each_thread_holds_its_own_increments() {
        let versions = Versions::new();
        versions.hold();
        versions.bump(7);
        thread::scope(|scope| {
            scope.spawn(|| {
                versions.hold();
                versions.bump(8);
                assert_eq!(versions.held(), vec![8]);
                versions.release();
            });
        });
        assert_eq!((versions.held(), versions.changes()), (vec![7], 1));
        versions.release();
        assert_eq!(versions.changes(), 2);
        for index in [7, 8] {
            assert!(!versions.is_unchanged(Dependency { index, value: 0 }));
        }
    }

    #[test]
    fn an_increment_of_another_thread_makes_those_that_are_held_too() {
        let versions = Versions::new();
        versions.hold();
        versions.bump(7);
        thread::scope(|scope| {
            scope.spawn(|| versions.bump(7));
        });
        assert!(versions.is_unchanged(Dependency { index: 7, value: 2 }));
        versions.release();
        assert!(versions.is_unchanged(Dependency { index: 7, value: 2 }));
    }

    #[test]
    fn a_lease_lasts_until_its_end() {
        let versions = Versions::new();
        assert!(versions.is_leased(u64::MAX - 1));
        versions.renew_lease(1_000);
        assert_eq!(
            [999, 1_000].map(|now| versions.is_leased(now)),
            [true, false]
        );
    }

    #[test]
    fn dependencies_survive_their_octets() {
        for (index, value) in [(0, 0), (258, 1), (65_535, u64::MAX)] {
            let dependency = Dependency { index, value };
            assert_eq!(Dependency::from_octets(&dependency.to_octets()), dependency);
        }
    }
}
