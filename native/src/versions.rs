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
//! Rule 6: while a thread holds its increments, each thread its own, entries with the old values stay valid.  It computes
//!         replies with the new values, which are stored at its release(), after all of its increments are made.  So
//!         replies to an event are there before a query waits for one, and no reply of the state before follows one of
//!         the state after, from any entry of any table.
//! Rule 7: a thread that read the data itself while others hold may have read both states.  It stores nothing then, and
//!         waits for their release() before it sends what it has read (`settle`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

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
    holders: AtomicUsize, // the length of `held`
    holds: AtomicU64,     // calls of hold()
    released: Condvar,
}

#[derive(Default)]
struct Counter {
    /// The value of valid entries.
    current: AtomicU64,
    /// The value for replies that are computed now; above `current` while an increment is held.
    next: AtomicU64,
}

/// The increments that a thread holds, and what it does once they are made.
struct Held {
    thread: ThreadId,
    began: u64, // the number of calls of hold() before
    indexes: Vec<u16>,
    after: Vec<Box<dyn FnOnce() + Send>>,
}

/// Who holds increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No thread.
    Nobody,
    /// The calling thread, and perhaps others.
    This,
    /// Other threads only.
    Another,
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
            held: Mutex::default(),
            holders: AtomicUsize::new(0),
            released: Condvar::new(),
            holds: AtomicU64::new(0),
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
        self.release();
        let mut all = lock(&self.held);
        all.push(Held {
            thread: thread::current().id(),
            began: self.holds.fetch_add(1, Ordering::Relaxed),
            indexes: Vec::new(),
            after: Vec::new(),
        });
        // Before the data change: a thread that sees them changed also sees this.
        self.holders.store(all.len(), Ordering::Release);
    }

    /// Return who holds increments.
    #[must_use]
    pub fn holder(&self) -> Holder {
        if self.holders.load(Ordering::Acquire) == 0 {
            return Holder::Nobody;
        }
        let this = thread::current().id();
        let all = lock(&self.held);
        match all.iter().any(|held| held.thread == this) {
            true => Holder::This,
            false if all.is_empty() => Holder::Nobody,
            false => Holder::Another,
        }
    }

    /// Do something once the increments that this thread holds are made; at once if it holds none.
    pub fn after_release(&self, function: impl FnOnce() + Send + 'static) {
        let this = thread::current().id();
        let mut all = lock(&self.held);
        if let Some(held) = all.iter_mut().find(|held| held.thread == this) {
            held.after.push(Box::new(function));
            return;
        }
        drop(all);
        function();
    }

    /// Wait until all other threads that hold increments now have made them, for `patience` at most.
    pub fn settle(&self, patience: Duration) {
        if self.holder() != Holder::Another {
            return;
        }
        let all = lock(&self.held);
        let now = self.holds.load(Ordering::Relaxed);
        let waits = |all: &mut Vec<Held>| all.iter().any(|held| held.began < now);
        let _ = self
            .released
            .wait_timeout_while(all, patience, waits)
            .unwrap_or_else(PoisonError::into_inner);
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

    /// Make all increments that this thread holds, then do what waits for that.
    pub fn release(&self) {
        let this = thread::current().id();
        let mut all = lock(&self.held);
        let Some(own) = all.iter().position(|held| held.thread == this) else {
            return;
        };
        // Before others may store what they read since.
        all[own]
            .indexes
            .iter()
            .for_each(|&index| self.publish(index));
        let held = all.swap_remove(own);
        self.holders.store(all.len(), Ordering::Release);
        drop(all);
        self.released.notify_all();
        held.after.into_iter().for_each(|function| function());
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

    /// Return whether a counter has a value, without the increments that are held.
    #[must_use]
    pub fn is_unchanged(&self, dependency: Dependency) -> bool {
        let counter = &self.counters[usize::from(dependency.index)];
        counter.current.load(Ordering::Acquire) == dependency.value
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
    use std::sync::{Arc, Barrier};

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
        assert_eq!((valid(), versions.changes()), ([true, false, false], 0));
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
    fn what_waits_for_a_release_sees_all_increments_of_its_thread() {
        let versions = Arc::new(Versions::new());
        let is_over = || {
            let at = |index| Dependency { index, value: 1 };
            [7, 8].map(|index| versions.is_unchanged(at(index))) == [true, true]
        };
        let done = Arc::new(AtomicUsize::new(0));
        let note = || {
            let (versions, done) = (Arc::clone(&versions), Arc::clone(&done));
            move || {
                let at = |index| Dependency { index, value: 1 };
                let both = [7, 8].map(|index| versions.is_unchanged(at(index)));
                done.fetch_add(1 + usize::from(both == [false; 2]), Ordering::Relaxed);
            }
        };
        versions.hold();
        versions.bump(7);
        versions.after_release(note());
        thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(versions.holder(), Holder::Another);
                versions.after_release(note()); // of this thread, which holds nothing
            });
        });
        assert_eq!(
            (versions.holder(), done.load(Ordering::Relaxed)),
            (Holder::This, 2)
        );
        versions.bump(8);
        assert!(!is_over());
        versions.settle(Duration::MAX); // not for its own
        versions.release();
        assert!(is_over());
        assert_eq!(
            (versions.holder(), done.load(Ordering::Relaxed)),
            (Holder::Nobody, 3)
        );
    }

    #[test]
    fn a_thread_waits_for_the_events_that_others_began_before() {
        let versions = Versions::new();
        let began = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                versions.hold();
                versions.bump(7);
                began.wait();
                (0..100).for_each(|_| thread::yield_now());
                versions.release();
                versions.hold(); // the next event, which nobody waits for
                began.wait();
            });
            began.wait();
            versions.settle(Duration::from_secs(100));
            assert!(versions.is_unchanged(Dependency { index: 7, value: 1 }));
            began.wait();
        });
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
