//! The answer table: keys to entries, then regions.
//!
//! Rule 1: an entry answers only while all of its versions hold; else it is treated as absent, and goes when its
//!         memory is wanted or its key is learned anew.
//! Rule 2: an entry before a region, a region before nothing.
//! Rule 3: readers lock once a batch; the writer (Python, which learns) holds the lock for one entry at a time.  Room
//!         for entries is asked for at the start, so that growing never copies all of them under the lock.
//! Rule 4: a reply is learned only under the question that it answers, and only if nothing it was computed from has
//!         changed since: versions are compared under the same lock that the readers use.
//! Rule 5: what is to be logged has a record in the log ring (log.rs), whatever it came over.
//! Rule 6: a reply says, and over UDP has, no more octets than its block lets through: the larger size of a query is
//!         lowered before the reply is written.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use crate::counters::{Cells, Counters, Hit, Tally, Totals};
use crate::entry::{Entry, Terms};
use crate::index::Index;
use crate::key::{Query, Reader, u16_at};
use crate::lock::{lock, read, write};
use crate::log::{Known, Line, Log};
use crate::records::outline;
use crate::region::Region;
use crate::s3fifo::{Entries, Queues};
use crate::system::{monotonic, prefetch};
use crate::versions::Versions;

/// The most counters that an entry may depend on.
pub const MAX_PAIRS: usize = 8;
/// No entry is smaller; room for so many is asked for at the start, and taken by the kernel only when used.
const SMALLEST_ENTRY_LEN: usize = 256;
const MOST_ENTRIES: usize = 1 << 20;

/// The table of one listener, shared by its workers.
pub struct AnswerTable {
    versions: Arc<Versions>,
    capacity: usize,
    hasher: RandomState,
    inner: RwLock<Inner>,
    counters: Mutex<Counters>,
    changes: Mutex<Changes>,
    log: Log,
}

struct Inner {
    index: Index,
    slots: Slots,
    free: Vec<u32>,
    queues: Queues,
    regions: Vec<Region>,
}

/// The entries by number, and what the queues ask of them.
struct Slots {
    entries: Vec<Option<Entry>>,
    hashes: Vec<u64>,
    versions: Arc<Versions>,
}

#[derive(Clone, Copy, Default)]
struct Changes {
    stored: u64,
    refused: u64,
    evicted: u64,
}

/// Numbers about a table; those that are not states only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Entries now.
    pub entries: u64,
    /// Octets that they take.
    pub octets: u64,
    /// What became of queries.
    pub totals: Totals,
    /// Replies learned.
    pub stored: u64,
    /// Replies that were not.
    pub refused: u64,
    /// Entries that went for want of memory.
    pub evicted: u64,
}

/// A client, as far as its replies and its counting depend on it.
#[derive(Clone, Copy)]
pub struct Client {
    /// Whether it came by IPv6; an IPv4-mapped address is IPv4.
    pub is_ipv6: bool,
    /// Whether it came over TCP.
    pub is_tcp: bool,
    /// Nanoseconds of the monotonic clock.
    pub now: u64,
}

impl AnswerTable {
    /// Make an empty table whose entries take at most `capacity` octets.
    #[must_use]
    pub fn new(versions: Arc<Versions>, capacity: usize) -> Self {
        let room = (capacity / SMALLEST_ENTRY_LEN).min(MOST_ENTRIES);
        let inner = Inner {
            index: Index::new(),
            slots: Slots {
                entries: Vec::with_capacity(room),
                hashes: Vec::with_capacity(room),
                versions: Arc::clone(&versions),
            },
            free: Vec::new(),
            queues: Queues::new(capacity),
            regions: Vec::new(),
        };
        Self {
            versions,
            capacity,
            hasher: RandomState::new(),
            inner: RwLock::new(inner),
            counters: Mutex::default(),
            changes: Mutex::default(),
            log: Log::default(),
        }
    }

    /// Lock for a batch of questions.
    pub fn open(&self) -> Reading<'_> {
        Reading {
            table: self,
            inner: read(&self.inner),
        }
    }

    /// Store a reply; tell whether it was.
    pub fn store(&self, query: &[u8], reply: &[u8], terms: Terms) -> bool {
        let (is_stored, evicted) = self.try_store(query, reply, terms).unwrap_or((false, 0));
        let mut changes = lock(&self.changes);
        changes.evicted += evicted;
        if is_stored {
            changes.stored += 1;
        } else {
            changes.refused += 1;
        }
        is_stored
    }

    /// None: refused; else whether it is in, and how many others went for it.
    fn try_store(&self, query: &[u8], reply: &[u8], terms: Terms) -> Option<(bool, u64)> {
        let mut reader = Reader::default();
        let query = reader.read(query)?;
        let outline = outline(&query, reply)?;
        if terms.pairs.len() > MAX_PAIRS || !outline.serials.is_empty() && terms.names.is_none() {
            return None;
        }
        let now = monotonic();
        let key = query.key();
        let entry = Entry::new(key, reply, outline, terms, now);
        let octets = entry.memory_len();
        if octets > self.capacity {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let mut inner = write(&self.inner);
        if !entry.holds(&self.versions) {
            return None;
        }
        Some((true, inner.put(entry, hash, octets, self.capacity, now)))
    }

    /// Declare a region; return its number.
    pub fn add_negative_zone(&self, region: Region) -> usize {
        let mut inner = write(&self.inner);
        inner.regions.push(region);
        inner.regions.len() - 1
    }

    /// Give a region its template; tell whether the reply is one, None where there is no such region.
    pub fn set_template(
        &self,
        region: usize,
        query: &[u8],
        reply: &[u8],
        size: usize,
    ) -> Option<bool> {
        let mut inner = write(&self.inner);
        let region = inner.regions.get_mut(region)?;
        let mut reader = Reader::default();
        let query = reader.read(query);
        Some(query.is_some_and(|query| region.teach(&query, reply, size)))
    }

    /// Answer a query over TCP, in at most `limit` octets, and log it where that is wanted; `address` is the client's.
    pub fn lookup(
        &self,
        query: &[u8],
        limit: usize,
        client: Client,
        address: &[u8],
    ) -> Option<Vec<u8>> {
        let start = monotonic();
        let client = Client {
            is_tcp: true,
            ..client
        };
        let mut reader = Reader::default();
        let mut tally = Tally::default();
        let mut out = Vec::new();
        let known = match reader.read(query) {
            Some(query) => {
                let reading = self.open();
                let place = reading.locate(&query);
                reading.answer(&query, place, limit, client, &mut out, &mut tally)
            }
            None => {
                tally.totals.not_plain += 1;
                None
            }
        };
        let elapsed = monotonic().saturating_sub(start);
        self.count(&mut tally, true, elapsed);
        let known = known?;
        if known.log {
            self.log.push([Line {
                query,
                address,
                is_tcp: true,
                flags: u16_at(&out, 2),
                known,
                elapsed,
            }]);
        }
        Some(out)
    }

    /// Add up what a batch counted; each of its hits took so many nanoseconds.
    pub fn count(&self, tally: &mut Tally, is_tcp: bool, nanoseconds: u64) {
        lock(&self.counters).absorb(tally, is_tcp, nanoseconds);
    }

    /// Forget all entries; regions keep their templates.
    pub fn clear(&self) {
        let mut inner = write(&self.inner);
        inner.index.clear();
        inner.slots.entries.clear();
        inner.slots.hashes.clear();
        inner.free.clear();
        inner.queues.clear();
    }

    /// The hits that are to be logged.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Take out the counts since the last time.
    pub fn take_counts(&self) -> Vec<(u32, bool, Box<Cells>)> {
        lock(&self.counters).take_counts()
    }

    /// Say how the table does.
    pub fn statistics(&self) -> Statistics {
        let (entries, octets) = {
            let inner = read(&self.inner);
            (inner.index.len(), inner.queues.octets())
        };
        let changes = *lock(&self.changes);
        Statistics {
            entries: entries as u64,
            octets: octets as u64,
            totals: lock(&self.counters).totals,
            stored: changes.stored,
            refused: changes.refused,
            evicted: changes.evicted,
        }
    }
}

/// A table that is locked for a batch.
pub struct Reading<'a> {
    table: &'a AnswerTable,
    inner: RwLockReadGuard<'a, Inner>,
}

/// Where the entry of a query may stand; found before it is needed, so that the memory of many is fetched at once.
#[derive(Clone, Copy)]
pub struct Place {
    hash: u64,
    slot: Option<u32>,
}

impl Reading<'_> {
    /// Find where the entry of a query may stand, and ask for its memory.
    #[must_use]
    pub fn locate(&self, query: &Query<'_>) -> Place {
        let hash = self.table.hasher.hash_one(query.key());
        let slot = self.inner.index.find(hash, |_| true);
        if let Some(slot) = slot {
            prefetch(&self.inner.slots.entries[slot as usize]);
        }
        Place { hash, slot }
    }

    /// Ask for what the entry there leads to.
    pub fn prefetch(&self, place: Place) {
        if let Some(entry) = place.slot.and_then(|slot| self.inner.slots.entry(slot)) {
            entry.prefetch(&self.table.versions);
        }
    }

    /// Append the reply to a query, if it is known, and count; what is logged is the caller's to log.
    pub fn answer(
        &self,
        query: &Query<'_>,
        place: Place,
        limit: usize,
        client: Client,
        out: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Option<Known> {
        let hit = |group, known: Known, cache| Hit {
            group,
            is_ipv6: client.is_ipv6,
            dnssec_ok: query.dnssec_ok(),
            request_size: query.wire.len(),
            reply_size: u64::from(known.size),
            cache,
        };
        let mut lowered = None;
        if let Some(entry) = self.find(query.key(), place) {
            if entry.holds(&self.table.versions) {
                let known = entry.known();
                let (query, limit) = lower(query, limit, entry.max_payload, client, &mut lowered);
                entry.write(query, limit, out);
                entry.touch();
                let cache = entry.cache_outcome(client.now);
                tally.count(&hit(entry.group, known, cache));
                tally.totals.hits += 1;
                return Some(known);
            }
            tally.totals.stale += 1;
        }
        let absence = nearest(&self.inner.regions, query)
            .map(|region| &self.inner.regions[region])
            .and_then(|region| {
                let (query, limit) = lower(query, limit, region.max_payload, client, &mut lowered);
                region.answer(query, limit, out)
            });
        let Some(absence) = absence else {
            tally.totals.misses += 1;
            return None;
        };
        tally.count(&hit(absence.group, absence.known, absence.cache));
        tally.totals.negative_hits += 1;
        Some(absence.known)
    }

    fn find(&self, key: &[u8], place: Place) -> Option<&Entry> {
        let slots = &self.inner.slots;
        let is_same = |&slot: &u32| slots.is_of(slot, key);
        let likely = place.slot.filter(is_same);
        let slot = likely.or_else(|| self.inner.index.find(place.hash, is_same))?;
        slots.entry(slot)
    }
}

/// A query as a block sees it that lets no larger payload size through, and what its reply may take; `room` keeps it.
#[inline]
fn lower<'a, 'w>(
    query: &'a Query<'w>,
    limit: usize,
    max_payload: u16,
    client: Client,
    room: &'a mut Option<Query<'w>>,
) -> (&'a Query<'w>, usize) {
    if query.payload_size() <= max_payload {
        return (query, limit);
    }
    let lowered = room.insert(query.lowered(max_payload));
    let limit = if client.is_tcp {
        limit
    } else {
        lowered.udp_limit()
    };
    (lowered, limit)
}

/// The region with the longest zone that a query's name is below.
fn nearest(regions: &[Region], query: &Query<'_>) -> Option<usize> {
    let mut best = None;
    for (index, region) in regions.iter().enumerate() {
        let labels = region.labels_above(query);
        if labels > best.map(|(labels, _)| labels) {
            best = labels.map(|labels| (labels, index));
        }
    }
    best.map(|(_, index)| index)
}

impl Inner {
    /// Put an entry in, in the place of the one of its key if there is one; return how many others went.
    fn put(
        &mut self,
        mut entry: Entry,
        hash: u64,
        octets: usize,
        capacity: usize,
        now: u64,
    ) -> u64 {
        let same = |&slot: &u32| self.slots.is_of(slot, entry.key());
        if let Some(slot) = self.index.find(hash, same) {
            let place = &mut self.slots.entries[slot as usize];
            if let Some(old) = place {
                entry.inherit(old, now);
                self.queues.resize(old.is_in_main, old.memory_len(), octets);
            }
            *place = Some(entry);
            return self.evict_above(capacity);
        }
        let evicted = self.evict_above(capacity - octets);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.entries.push(None);
            self.slots.hashes.push(0);
            u32::try_from(self.slots.entries.len() - 1).unwrap_or(u32::MAX)
        });
        entry.is_in_main = self.queues.push(slot, hash, octets);
        self.slots.entries[slot as usize] = Some(entry);
        self.slots.hashes[slot as usize] = hash;
        let hashes = &self.slots.hashes;
        self.index.insert(hash, slot, |&slot| hashes[slot as usize]);
        evicted
    }

    fn evict_above(&mut self, octets: usize) -> u64 {
        let mut evicted = 0;
        while self.queues.octets() > octets {
            let Some(slot) = self.queues.evict(&mut self.slots) else {
                break;
            };
            let hash = self.slots.hashes[slot as usize];
            self.index.remove(hash, slot);
            self.slots.entries[slot as usize] = None;
            self.free.push(slot);
            evicted += 1;
        }
        evicted
    }
}

impl Slots {
    fn is_of(&self, slot: u32, key: &[u8]) -> bool {
        self.entry(slot).is_some_and(|entry| entry.is_of(key))
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries[slot as usize].as_ref()
    }
}

impl Entries for Slots {
    fn memory_len(&self, slot: u32) -> usize {
        self.entry(slot).map_or(0, Entry::memory_len)
    }

    fn hash(&self, slot: u32) -> u64 {
        self.hashes[slot as usize]
    }

    fn frequency(&self, slot: u32) -> u8 {
        self.entry(slot).map_or(0, Entry::frequency)
    }

    fn set_frequency(&mut self, slot: u32, frequency: u8) {
        if let Some(entry) = self.entry(slot) {
            entry.set_frequency(frequency);
        }
    }

    fn move_to_main(&mut self, slot: u32) {
        if let Some(entry) = &mut self.entries[slot as usize] {
            entry.is_in_main = true;
        }
    }

    fn is_stale(&self, slot: u32) -> bool {
        self.entry(slot)
            .is_none_or(|entry| !entry.holds(&self.versions))
    }
}
