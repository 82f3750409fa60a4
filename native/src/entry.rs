//! One stored reply: its records, the counters that they were computed from, and its use count.
//!
//! Rule 1: dependencies, key and records are one block of octets, because each further place in memory costs a cache
//!         miss.  The question is not stored: it is copied from each query.
//! Rule 2: owners may point into the question, which has the same length for every query of the key; RDATA never does
//!         (hsdns/wire/encode.py, rule 2).
//! Rule 3: a timed reply is one that `cache` has stored.  All its records have one TTL, the seconds left, which is
//!         written for each hit.
//! Rule 4: fields that a hit changes are atomic and relaxed, because the table is only locked for reading; a lost
//!         update does no harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::key::{AA, AD, Query};
use crate::log::ReplySummary;
use crate::names::ClusterNames;
use crate::records::{Outline, Rotation};
use crate::reply::Draft;
use crate::system::prefetch;
use crate::timing::{NANOSECONDS, Timing};
use crate::versions::{Dependency, Versions};

/// The maximum of an entry's use count (S3-FIFO keeps two bits).
pub const MAX_FREQUENCY: u8 = 3;

/// The overhead of an allocation.
const ALLOCATION_LEN: usize = 16;
/// The memory of index, queue and ghost for each entry.
const LINKS_LEN: usize = 24;

/// A stored reply.
pub struct Entry {
    octets: Box<[u8]>,   // dependencies, key, records, extended errors
    numbers: Box<[u16]>, // where SOA serials or the TTLs of a timed reply are in the records
    names: Option<Arc<ClusterNames>>,
    timing: Option<Timing>,
    marked_until: AtomicU64,
    validated: AtomicU64, // the number of changes when it was last found valid
    turns: AtomicU32,
    mark_ttl: i32,
    /// The row of counters for its hits.
    pub group: u32,
    /// Larger payload sizes of queries are lowered to this.
    pub max_payload: u16,
    size: u32,
    first_dependency: u16, // index of its first dependency, 0 if there is none
    dependencies_len: u16,
    key_len: u16,
    errors_len: u16,
    flags: u16,
    counts: [u16; 3],
    rotation: Rotation, // of length 0 where nothing rotates
    frequency: AtomicU8,
    /// Whether it is in the main queue (s3fifo.rs).
    pub is_in_main: bool,
    /// Stored by a forwarder: queries with and without an OPT record have it.
    pub is_forwarded: bool,
    log: bool,
}

/// The data stored with a reply.
#[derive(Clone)]
pub struct Terms {
    /// The counters it depends on, with their values before it was computed.
    pub dependencies: Box<[Dependency]>,
    /// The row of counters for its hits.
    pub group: u32,
    /// Octets of the reply without compression and without OPT.
    pub size: u32,
    /// Whether its addresses rotate.
    pub rotate: bool,
    /// The names with the serial of its SOA records.
    pub names: Option<Arc<ClusterNames>>,
    /// 0: a hit counts as miss of `cache`; above: as hit for this many seconds after a mark; -1: as neither.
    pub mark_ttl: i32,
    /// Whether its hits are logged.
    pub log: bool,
    /// Larger payload sizes of queries are lowered to this; 65,535 for no limit.
    pub max_payload: u16,
    /// Of a reply of `cache`; `names` and `mark_ttl` do not apply then.
    pub timing: Option<Timing>,
    /// Options with Extended DNS Errors that the OPT record ends with (RFC 8914); at most MAX_ERRORS_LEN octets.
    pub errors: Box<[u8]>,
}

impl Entry {
    /// Make an entry of a reply and its outline; `now` in nanoseconds.
    #[must_use]
    pub fn new(key: &[u8], reply: &[u8], outline: Outline, terms: Terms, now: u64) -> Self {
        let records = &reply[outline.start..outline.end];
        let dependencies = terms
            .dependencies
            .iter()
            .flat_map(|dependency| dependency.to_octets());
        let dependencies: Vec<u8> = dependencies.collect();
        let rotation = outline.rotation.filter(|_| terms.rotate);
        let numbers = match terms.timing {
            None => outline.serials,
            Some(timing) if timing.ttl == 0 => Vec::new(),
            Some(_) => outline.ttls,
        };
        let is_timed = terms.timing.is_some();
        Self {
            octets: [&dependencies, key, records, &terms.errors]
                .concat()
                .into_boxed_slice(),
            names: terms.names.filter(|_| !is_timed && !numbers.is_empty()),
            numbers: numbers.into_boxed_slice(),
            timing: terms.timing,
            marked_until: AtomicU64::new(mark(now, terms.mark_ttl)),
            validated: AtomicU64::new(u64::MAX),
            turns: AtomicU32::new(0),
            mark_ttl: terms.mark_ttl,
            group: terms.group,
            max_payload: terms.max_payload,
            size: terms.size,
            first_dependency: terms
                .dependencies
                .first()
                .map_or(0, |dependency| dependency.index),
            dependencies_len: u16::try_from(dependencies.len()).unwrap_or(0),
            key_len: u16::try_from(key.len()).unwrap_or(0),
            errors_len: u16::try_from(terms.errors.len()).unwrap_or(0),
            flags: outline.flags,
            counts: outline.counts,
            rotation: rotation.unwrap_or_default(),
            frequency: AtomicU8::new(0),
            is_in_main: false,
            is_forwarded: false,
            log: terms.log,
        }
    }

    /// Return whether this is the entry of a key.
    #[must_use]
    pub fn is_of(&self, key: &[u8]) -> bool {
        *self.key() == *key
    }

    /// Prefetch the memory that a hit reads.
    pub fn prefetch(&self, versions: &Versions) {
        prefetch(&*self.octets);
        if self.validated.load(Ordering::Relaxed) != versions.changes() {
            versions.prefetch(self.first_dependency);
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let start = usize::from(self.dependencies_len);
        &self.octets[start..start + usize::from(self.key_len)]
    }

    /// Return whether none of its counters has changed.
    #[must_use]
    pub fn is_valid(&self, versions: &Versions) -> bool {
        // Read before the counters: a change in between is seen by the next call.
        let changes = versions.changes();
        if self.validated.load(Ordering::Relaxed) == changes {
            return true;
        }
        let holds = self
            .dependencies()
            .all(|dependency| versions.is_unchanged(dependency));
        if holds {
            self.validated.store(changes, Ordering::Relaxed);
        }
        holds
    }

    /// Return whether none of its counters has been incremented since it was computed, not even by an increment that is
    /// held.
    #[must_use]
    pub fn is_current(&self, versions: &Versions) -> bool {
        self.dependencies()
            .all(|dependency| versions.read(dependency.index) == dependency.value)
    }

    fn dependencies(&self) -> impl Iterator<Item = Dependency> {
        self.octets[..usize::from(self.dependencies_len)]
            .chunks_exact(Dependency::LEN)
            .map(Dependency::from_octets)
    }

    /// Return whether it depends on counters of a store; the first one of a timed reply is that of `cache`.
    #[must_use]
    pub fn needs_lease(&self) -> bool {
        let own = if self.timing.is_some() {
            Dependency::LEN
        } else {
            0
        };
        usize::from(self.dependencies_len) > own
    }

    /// Its memory in octets, with its share of the table.
    #[must_use]
    pub fn memory_len(&self) -> usize {
        let heap = [self.octets.len(), size_of_val::<[u16]>(&self.numbers)];
        let heap: usize = heap
            .iter()
            .filter(|&&len| len > 0)
            .map(|len| len.next_multiple_of(ALLOCATION_LEN) + ALLOCATION_LEN)
            .sum();
        size_of::<Option<Self>>() + LINKS_LEN + heap
    }

    /// The time of a timed reply.
    #[must_use]
    pub fn timing(&self) -> Option<Timing> {
        self.timing
    }

    /// The value to write into its records now: the SOA serial or the seconds left; None if a timed reply has expired.
    #[must_use]
    pub fn number(&self, now: u64) -> Option<u32> {
        match self.timing {
            None => Some(self.names.as_ref().map_or(0, |names| names.serial())),
            Some(timing) => timing.left(now),
        }
    }

    /// Append the reply to a query of this key.
    pub fn write(&self, query: &Query<'_>, limit: usize, number: u32, out: &mut Vec<u8>) {
        let stored = &self.octets[usize::from(self.dependencies_len + self.key_len)..];
        let (records, errors) = stored.split_at(stored.len() - usize::from(self.errors_len));
        let Rotation { first, len, count } = self.rotation;
        let pieces = if len == 0 {
            [records, &[], &[], &[]]
        } else {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed) % u32::from(count.max(1));
            let len = usize::from(len);
            let (before, records) = records.split_at(usize::from(first));
            let (addresses, rest) = records.split_at(len * usize::from(count));
            let (last, first) = addresses.split_at(len * turn as usize);
            [before, first, last, rest]
        };
        // AD of a timed reply is only for clients that ask for it (RFC 6840 section 5.7).
        let hidden = if self.timing.is_some() && !query.asks_for_ad() {
            AD
        } else {
            0
        };
        Draft {
            flags: self.flags & !hidden,
            counts: self.counts,
            records: pieces,
            numbers: &self.numbers,
            number,
            errors,
        }
        .write(query, limit, out);
    }

    /// Become what `cache` answers with from the second query on: with AA, and whether or not there is an OPT record.
    pub fn be_cached(&mut self) {
        self.flags |= AA;
        self.is_forwarded = true;
    }

    /// Let the first hit count as a miss of `cache`, because no client has queried it yet.
    pub fn unmark(&mut self) {
        *self.marked_until.get_mut() = 0;
    }

    /// Return whether a hit counts as hit of `cache`, or as miss, which marks the entry again; None: neither.
    pub fn cache_outcome(&self, now: u64) -> Option<bool> {
        if self.timing.is_some() {
            return Some(true);
        }
        match self.mark_ttl {
            ..0 => None,
            0 => Some(false),
            ttl => {
                let until = self.marked_until.load(Ordering::Relaxed);
                let is_first = now >= until
                    && self
                        .marked_until
                        .compare_exchange(
                            until,
                            mark(now, ttl),
                            Ordering::Relaxed,
                            Ordering::Relaxed,
                        )
                        .is_ok();
                Some(!is_first)
            }
        }
    }

    /// The counted and logged properties of its reply.
    #[must_use]
    pub fn summary(&self) -> ReplySummary {
        ReplySummary {
            log: self.log,
            size: self.size,
            answers: self.counts[0],
        }
    }

    /// Count a use.
    pub fn touch(&self) {
        let frequency = self.frequency();
        if frequency < MAX_FREQUENCY {
            self.frequency.store(frequency + 1, Ordering::Relaxed);
        }
    }

    /// Its recent use count.
    #[must_use]
    pub fn frequency(&self) -> u8 {
        self.frequency.load(Ordering::Relaxed)
    }

    /// Set its recent use count.
    pub fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency, Ordering::Relaxed);
    }

    /// Copy mark, rotation, frequency and queue from the entry of the same key that this one replaces.
    ///
    /// The frequency is then below the maximum, so that a use can be detected; a `renewed` entry also copies an ended
    /// mark.
    pub fn inherit(&mut self, old: &Self, renewed: bool, now: u64) {
        let until = old.marked_until.load(Ordering::Relaxed);
        if self.mark_ttl > 0 && old.mark_ttl > 0 && (renewed || until > now) {
            *self.marked_until.get_mut() = until;
        }
        *self.turns.get_mut() = old.turns.load(Ordering::Relaxed);
        *self.frequency.get_mut() = old.frequency().min(MAX_FREQUENCY - 1);
        self.is_in_main = old.is_in_main;
    }
}

/// When a mark set now ends; 0 without marks.
fn mark(now: u64, ttl: i32) -> u64 {
    match u64::try_from(ttl) {
        Ok(ttl) if ttl > 0 => now.saturating_add(ttl * NANOSECONDS),
        _ => 0,
    }
}
