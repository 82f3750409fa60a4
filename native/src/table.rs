//! The answer table: from keys to entries, then negative zones.
//!
//! Rule 1: an entry answers only while all of its versions are unchanged and it has not expired; a stale one counts as
//!         missing, and stays until its memory is needed or its key is stored again.
//! Rule 2: an entry takes precedence over a negative zone.
//! Rule 3: readers lock once per batch; the writer (Python, which stores) holds the lock for one entry at a time.
//! Rule 4: a reply is stored under the question that it answers, and only if none of its dependencies has changed since
//!         it was computed: versions are compared under the lock that the readers use.  During an event it is stored
//!         at its end or not at all (versions.rs, rules 6 and 7).
//! Rule 5: each hit of a logging block adds a record to the log ring (log.rs), over UDP and over TCP.
//! Rule 6: larger payload sizes of queries are lowered to `max_payload` of the entry or negative zone before the reply
//!         is written.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use crate::entries::Entries;
use crate::entry::{Entry, Terms};
use crate::forward::Route;
use crate::hit_counts::{BatchCounts, Cells, Hit, HitCounter, Totals};
use crate::key::{Query, Reader, u16_at};
use crate::lock::{lock, read, write};
use crate::log::{Line, Log, ReplySummary};
use crate::negative_zone::NegativeZone;
use crate::numerous_names::Counted;
use crate::records::outline;
use crate::reply::MAX_TCP_LEN;
use crate::system::monotonic;
use crate::tap::{Answered, Tap};
use crate::timing::Timing;
use crate::versions::{Holder, Versions};

/// The most counters that an entry may depend on.
pub const MAX_DEPENDENCIES: usize = 8;
/// The most octets of Extended DNS Errors that an entry can have.
pub const MAX_ERRORS_LEN: usize = 1024;

/// The table of one listener, shared by its workers.
pub struct AnswerTable {
    versions: Arc<Versions>,
    capacity: AtomicUsize,
    hasher: RandomState,
    inner: RwLock<Inner>,
    hit_counts: Mutex<HitCounter>,
    changes: Mutex<Changes>,
    log: Log,
    tap: Option<(Arc<Tap>, u32)>,
    /// For misses that need no Python.
    pub(crate) routes: RwLock<Vec<Arc<Route>>>,
}

struct Inner {
    entries: Entries,
    negative_zones: Vec<NegativeZone>,
}

#[derive(Clone, Copy, Default)]
struct Changes {
    stored: u64,
    refused: u64,
    evicted: u64,
}

/// The contents of a table, and its counts so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Entries now.
    pub entries: u64,
    /// Their memory in octets.
    pub octets: u64,
    /// The outcomes of queries.
    pub totals: Totals,
    /// Replies that were stored.
    pub stored: u64,
    /// Replies that could not be stored.
    pub refused: u64,
    /// Entries that were evicted.
    pub evicted: u64,
    /// The number of entries that forwarders have stored, by the row of counters for their hits.
    pub forwarded: Vec<(u32, u64)>,
}

/// A hit found by peek(): of an entry, or of a negative zone.
#[derive(Clone, Copy, Debug)]
pub struct Peeked {
    /// Whether the name does not exist, as others in its negative zone.
    pub is_denial: bool,
    /// Of a reply of `cache`.
    pub timing: Option<Timing>,
}

/// How much of a stream is answered at once.
#[derive(Clone, Copy)]
pub struct Framed {
    /// Messages at most.
    pub most: usize,
    /// Octets of replies after which no more are made.
    pub limit: usize,
}

/// What was answered of a stream.
#[derive(Default)]
pub struct Answers {
    /// Messages.
    pub messages: usize,
    /// Their octets.
    pub octets: usize,
    /// The next message is a miss.
    pub is_miss: bool,
}

/// The properties of a client that replies and counts depend on.
#[derive(Clone, Copy)]
pub struct Client {
    /// Whether the query was received over IPv6; an IPv4-mapped address is IPv4.
    pub is_ipv6: bool,
    /// Whether the query was received over TCP.
    pub is_tcp: bool,
    /// Nanoseconds of the monotonic clock.
    pub now: u64,
}

impl AnswerTable {
    /// Make an empty table whose entries take at most `capacity` octets.
    #[must_use]
    pub fn new(versions: Arc<Versions>, capacity: usize) -> Self {
        let inner = Inner {
            entries: Entries::new(Arc::clone(&versions), capacity),
            negative_zones: Vec::new(),
        };
        Self {
            versions,
            capacity: AtomicUsize::new(capacity),
            hasher: RandomState::new(),
            inner: RwLock::new(inner),
            hit_counts: Mutex::default(),
            changes: Mutex::default(),
            log: Log::default(),
            tap: None,
            routes: RwLock::default(),
        }
    }

    /// Report its hits to a tap, as those of a source.
    #[must_use]
    pub fn with_tap(mut self, tap: Option<Arc<Tap>>, source: u32) -> Self {
        self.tap = tap.map(|tap| (tap, source));
        self
    }

    /// Let a route take misses.
    pub fn add_route(&self, route: Route) {
        write(&self.routes).push(Arc::new(route));
    }

    /// Whether any route takes misses.
    pub fn forwards(&self) -> bool {
        !read(&self.routes).is_empty()
    }

    /// The tap for its hits, with the source; none while it is closed.
    #[must_use]
    pub fn open_tap(&self) -> Option<(&Tap, u32)> {
        let (tap, source) = self.tap.as_ref()?;
        tap.is_open().then_some((tap, *source))
    }

    /// Lock for a batch of queries.
    pub fn open(&self) -> Reading<'_> {
        Reading {
            table: self,
            inner: read(&self.inner),
        }
    }

    /// Store a reply; return whether it was or will be stored.
    pub fn store(self: &Arc<Self>, query: &[u8], reply: &[u8], terms: Terms) -> bool {
        self.put(query, reply, terms, false)
    }

    /// Store a reply that no client has queried; return whether it was or will be stored.
    pub fn renew(self: &Arc<Self>, query: &[u8], reply: &[u8], terms: Terms) -> bool {
        self.put(query, reply, terms, true)
    }

    /// Store a reply when the increments that this thread holds are made, or now; not while other threads hold any.
    fn put(self: &Arc<Self>, query: &[u8], reply: &[u8], terms: Terms, renewed: bool) -> bool {
        match self.versions.holder() {
            Holder::Nobody => self.put_now(query, reply, terms, renewed),
            Holder::This if self.is_shown(&terms) => self.put_now(query, reply, terms, renewed),
            Holder::This => {
                let (table, query, reply) = (Arc::clone(self), query.to_vec(), reply.to_vec());
                self.versions.after_release(move || {
                    table.put_now(&query, &reply, terms, renewed);
                });
                true
            }
            Holder::Another => {
                lock(&self.changes).refused += 1;
                false
            }
        }
    }

    /// Whether a reply depends on no increment that is held.
    fn is_shown(&self, terms: &Terms) -> bool {
        let mut dependencies = terms.dependencies.iter();
        dependencies.all(|dependency| self.versions.is_unchanged(*dependency))
    }

    fn put_now(&self, query: &[u8], reply: &[u8], terms: Terms, renewed: bool) -> bool {
        let (is_stored, evicted) = self
            .try_store(query, reply, terms, renewed)
            .unwrap_or((false, 0));
        let mut changes = lock(&self.changes);
        changes.evicted += evicted;
        if is_stored {
            changes.stored += 1;
        } else {
            changes.refused += 1;
        }
        is_stored
    }

    /// None: refused; else whether it was stored, and how many others were evicted.
    fn try_store(
        &self,
        query: &[u8],
        reply: &[u8],
        terms: Terms,
        renewed: bool,
    ) -> Option<(bool, u64)> {
        let mut reader = Reader::default();
        let now = monotonic();
        let entry = make(&reader.read(query)?, reply, terms, now)?;
        self.insert(entry, renewed, now)
    }

    /// Store the reply to a query that `cache` would store, and append it to `out` as its first client gets it, in at
    /// most `limit` octets; False if that is not possible.
    pub fn store_first(
        &self,
        query: &Query<'_>,
        reply: &[u8],
        terms: Terms,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let now = monotonic();
        let ttl = terms.timing.map_or(0, |timing| timing.ttl);
        let Some(mut entry) = make(query, reply, terms, now) else {
            return false;
        };
        entry.write(query, limit, ttl, out);
        entry.be_cached();
        let evicted = self.insert(entry, false, now).map(|(_, evicted)| evicted);
        let mut changes = lock(&self.changes);
        changes.stored += u64::from(evicted.is_some());
        changes.evicted += evicted.unwrap_or(0);
        true
    }

    fn insert(&self, entry: Entry, renewed: bool, now: u64) -> Option<(bool, u64)> {
        let capacity = self.capacity.load(Ordering::Relaxed);
        if entry.memory_len() > capacity {
            return None;
        }
        let hash = self.hasher.hash_one(entry.key());
        let mut inner = write(&self.inner);
        if !entry.is_current(&self.versions) {
            return None;
        }
        let evicted = inner.entries.put(entry, hash, capacity, renewed, now);
        Some((true, evicted))
    }

    /// The recent use count of a query's entry, valid or not; None if there is no entry.
    #[must_use]
    pub fn uses(&self, query: &[u8]) -> Option<u8> {
        let mut reader = Reader::default();
        let query = reader.read(query)?;
        let reading = self.open();
        let entry = reading.find(query.key(), reading.locate(&query))?;
        Some(entry.frequency())
    }

    /// Add a negative zone; return its number.
    pub fn add_negative_zone(&self, negative_zone: NegativeZone) -> usize {
        let mut inner = write(&self.inner);
        inner.negative_zones.push(negative_zone);
        inner.negative_zones.len() - 1
    }

    /// Make a template from a reply; return whether that is possible, None if there is no such negative zone.
    pub fn set_template(
        &self,
        negative_zone: usize,
        query: &[u8],
        reply: &[u8],
        size: usize,
    ) -> Option<bool> {
        self.teach(negative_zone, query, |zone, query| {
            zone.set_template(query, reply, size)
        })
    }

    /// Take the form of a reply about a name without number; return whether that is possible, None if there is no such
    /// negative zone.
    pub fn set_form(
        &self,
        negative_zone: usize,
        query: &[u8],
        reply: &[u8],
        size: usize,
        counted: Counted,
    ) -> Option<bool> {
        self.teach(negative_zone, query, |zone, query| {
            zone.set_form(query, reply, size, counted)
        })
    }

    /// Let a negative zone take something from the reply to a query; None if there is no such zone.
    fn teach(
        &self,
        negative_zone: usize,
        query: &[u8],
        take: impl FnOnce(&mut NegativeZone, &Query<'_>) -> bool,
    ) -> Option<bool> {
        let mut inner = write(&self.inner);
        let negative_zone = inner.negative_zones.get_mut(negative_zone)?;
        let mut reader = Reader::default();
        let query = reader.read(query);
        Some(query.is_some_and(|query| take(negative_zone, &query)))
    }

    /// Answer a query over TCP in at most `limit` octets, and log it if wanted; `address` is the client's socket
    /// address.  `limit` None: it came over UDP and was a miss before it waited; another miss is not counted.
    pub fn lookup(
        &self,
        query: &[u8],
        limit: Option<usize>,
        client: Client,
        address: &[u8],
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.look_up(query, limit, client, address, &mut out)
            .then_some(out)
    }

    /// Answer the messages of a stream, each behind its length, with replies behind theirs, up to a miss.
    pub fn answer_framed(
        &self,
        mut data: &[u8],
        framed: Framed,
        client: Client,
        address: &[u8],
        out: &mut Vec<u8>,
    ) -> Answers {
        let mut done = Answers::default();
        while done.messages < framed.most && out.len() < framed.limit {
            let Some((length, rest)) = data.split_first_chunk::<2>() else {
                break;
            };
            let Some((query, rest)) = rest.split_at_checked(u16::from_be_bytes(*length).into())
            else {
                break;
            };
            let begin = out.len();
            out.extend([0, 0]);
            if !self.look_up(query, Some(MAX_TCP_LEN), client, address, out) {
                out.truncate(begin);
                done.is_miss = true;
                break;
            }
            let len = u16::try_from(out.len() - begin - 2).expect("within the limit");
            out[begin..begin + 2].copy_from_slice(&len.to_be_bytes());
            data = rest;
            done.octets += query.len() + 2;
            done.messages += 1;
        }
        done
    }

    /// As lookup(); append the reply to `out`, and return whether there is one.
    fn look_up(
        &self,
        query: &[u8],
        limit: Option<usize>,
        client: Client,
        address: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let start = monotonic();
        let is_tcp = limit.is_some();
        let client = Client { is_tcp, ..client };
        let mut reader = Reader::default();
        let mut counts = BatchCounts::default();
        let begin = out.len();
        let summary = match reader.read(query) {
            Some(query) => {
                let limit = limit.unwrap_or_else(|| query.udp_limit());
                let reading = self.open();
                let place = reading.locate(&query);
                reading.answer(&query, place, limit, client, out, &mut counts)
            }
            None => {
                counts.totals.not_plain += 1;
                None
            }
        };
        let elapsed = monotonic().saturating_sub(start);
        if is_tcp || summary.is_some() {
            self.count(&mut counts, is_tcp, elapsed);
        }
        let Some(summary) = summary else {
            return false;
        };
        let flags = u16_at(out, begin + 2);
        if summary.log {
            self.log.push([Line {
                query,
                address,
                is_tcp,
                flags,
                summary,
                elapsed,
            }]);
        }
        if let Some((tap, source)) = self.open_tap() {
            tap.push([Answered {
                query,
                address,
                source,
                is_tcp,
                is_hit: true,
                flags: Some(flags),
                size: out.len() - begin,
                elapsed,
                at: start + elapsed,
            }]);
        }
        true
    }

    /// The result that lookup() would have for a query at `now`, in nanoseconds of the monotonic clock; None for a
    /// miss.  Nothing is counted or changed.
    #[must_use]
    pub fn peek(&self, query: &[u8], now: u64) -> Option<Peeked> {
        let mut reader = Reader::default();
        let query = reader.read(query)?;
        self.open().peek(&query, now)
    }

    /// Return whether a query is for the name of an existing Service in a negative zone, or of one of its endpoints.
    #[must_use]
    pub fn is_listed(&self, query: &[u8]) -> bool {
        let mut reader = Reader::default();
        reader
            .read(query)
            .is_some_and(|query| self.open().is_listed(&query))
    }

    /// Add the counts of a batch, with this duration for each of its hits.
    pub fn count(&self, counts: &mut BatchCounts, is_tcp: bool, nanoseconds: u64) {
        lock(&self.hit_counts).absorb(counts, is_tcp, nanoseconds);
    }

    /// Limit the octets of entries, beginning with the next one that is stored.
    pub fn set_capacity(&self, octets: usize) {
        self.capacity.store(octets, Ordering::Relaxed);
    }

    /// Drop all entries; negative zones and their templates stay.
    pub fn clear(&self) {
        write(&self.inner).entries.clear();
    }

    /// The log ring.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Take the counts since the last call.
    pub fn take_counts(&self) -> Vec<(u32, bool, Box<Cells>)> {
        lock(&self.hit_counts).take_counts()
    }

    /// The contents of the table, and its counts so far.
    pub fn statistics(&self) -> Statistics {
        let (entries, octets, forwarded) = {
            let entries = &read(&self.inner).entries;
            (entries.len(), entries.octets(), entries.forwarded())
        };
        let changes = *lock(&self.changes);
        Statistics {
            entries: entries as u64,
            octets: octets as u64,
            totals: lock(&self.hit_counts).totals,
            stored: changes.stored,
            refused: changes.refused,
            evicted: changes.evicted,
            forwarded,
        }
    }
}

/// A table that is locked for a batch.
pub struct Reading<'a> {
    table: &'a AnswerTable,
    inner: RwLockReadGuard<'a, Inner>,
}

/// The possible location of a query's entry, found before it is needed, so that the memory of many is fetched at once.
#[derive(Clone, Copy)]
pub struct Place {
    hash: u64,
    slot: Option<u32>,
}

impl Reading<'_> {
    /// Find the possible location of a query's entry, and prefetch it.
    #[must_use]
    pub fn locate(&self, query: &Query<'_>) -> Place {
        let hash = self.table.hasher.hash_one(query.key());
        let slot = self.inner.entries.likely(hash);
        Place { hash, slot }
    }

    /// Prefetch the memory that the entry at a location refers to.
    pub fn prefetch(&self, place: Place) {
        if let Some(entry) = place.slot.and_then(|slot| self.inner.entries.entry(slot)) {
            entry.prefetch(&self.table.versions);
        }
    }

    /// Append the reply to a query, if it is a hit, and count it; the caller logs it.
    pub fn answer(
        &self,
        query: &Query<'_>,
        place: Place,
        limit: usize,
        client: Client,
        out: &mut Vec<u8>,
        counts: &mut BatchCounts,
    ) -> Option<ReplySummary> {
        let hit = |group, summary: ReplySummary, cache| Hit {
            group,
            is_ipv6: client.is_ipv6,
            dnssec_ok: query.dnssec_ok(),
            request_size: query.wire.len(),
            reply_size: u64::from(summary.size),
            cache,
        };
        let mut lowered = None;
        let is_leased = self.table.versions.is_leased(client.now);
        let own = self.find(query.key(), place);
        let entry = own.filter(|entry| is_leased || !entry.needs_lease());
        let valid = entry.and_then(|entry| self.valid(entry, client.now));
        if let Some((entry, number)) = valid.or_else(|| self.shared(query, client.now)) {
            let summary = entry.summary();
            let (query, limit) = lower(query, limit, entry.max_payload, client, &mut lowered);
            entry.write(query, limit, number, out);
            entry.touch();
            let cache = entry.cache_outcome(client.now);
            counts.count(&hit(entry.group, summary, cache));
            counts.totals.hits += 1;
            return Some(summary);
        }
        counts.totals.stale += u64::from(entry.is_some());
        let found = nearest(&self.inner.negative_zones, query)
            .filter(|_| is_leased)
            .map(|negative_zone| &self.inner.negative_zones[negative_zone])
            .and_then(|negative_zone| {
                let (query, limit) = lower(
                    query,
                    limit,
                    negative_zone.max_payload,
                    client,
                    &mut lowered,
                );
                negative_zone.answer(query, limit, out)
            });
        let Some(found) = found else {
            counts.totals.misses += 1;
            return None;
        };
        let Counted { group, cache } = found.counted;
        counts.count(&hit(group, found.summary, cache));
        if found.is_denial {
            counts.totals.negative_hits += 1;
        } else {
            counts.totals.hits += 1;
        }
        Some(found.summary)
    }

    /// See `AnswerTable::is_listed`.
    #[must_use]
    pub fn is_listed(&self, query: &Query<'_>) -> bool {
        let zones = &self.inner.negative_zones;
        zones.iter().any(|zone| zone.is_listed(query))
    }

    fn peek(&self, query: &Query<'_>, now: u64) -> Option<Peeked> {
        let versions = &self.table.versions;
        let is_leased = versions.is_leased(now);
        let entry = self
            .find(query.key(), self.locate(query))
            .filter(|entry| is_leased || !entry.needs_lease())
            .and_then(|entry| self.valid(entry, now));
        if let Some((entry, _)) = entry.or_else(|| self.shared(query, now)) {
            return Some(Peeked {
                is_denial: false,
                timing: entry.timing(),
            });
        }
        let negative_zones = &self.inner.negative_zones;
        let negative_zone = nearest(negative_zones, query).filter(|_| is_leased)?;
        let mut unsent = Vec::new();
        let found = negative_zones[negative_zone].answer(query, query.udp_limit(), &mut unsent)?;
        Some(Peeked {
            is_denial: found.is_denial,
            timing: None,
        })
    }

    /// An entry that answers now, with its number.
    fn valid<'e>(&self, entry: &'e Entry, now: u64) -> Option<(&'e Entry, u32)> {
        let number = entry.number(now)?;
        entry
            .is_valid(&self.table.versions)
            .then_some((entry, number))
    }

    /// The one of the same query with an OPT record, or without, that `cache` would answer with.
    fn shared(&self, query: &Query<'_>, now: u64) -> Option<(&Entry, u32)> {
        if query.dnssec_ok() || !self.table.forwards() {
            return None;
        }
        let key = query.other_key();
        let hash = self.table.hasher.hash_one(&key[..]);
        let entry = self.find(&key, Place { hash, slot: None })?;
        self.valid(entry, now).filter(|_| entry.is_forwarded)
    }

    fn find(&self, key: &[u8], place: Place) -> Option<&Entry> {
        self.inner.entries.find(key, place.hash, place.slot)
    }
}

/// Make an entry; None if the reply cannot be stored.
fn make(query: &Query<'_>, reply: &[u8], terms: Terms, now: u64) -> Option<Entry> {
    let outline = outline(query, reply)?;
    let is_refused = terms.dependencies.len() > MAX_DEPENDENCIES
        || terms.errors.len() > MAX_ERRORS_LEN
        || !outline.serials.is_empty() && terms.names.is_none() && terms.timing.is_none();
    (!is_refused).then(|| Entry::new(query.key(), reply, outline, terms, now))
}

/// A query with its payload size lowered to `max_payload`, and the limit of its reply; `room` holds the new query.
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

/// The negative zone with the longest name that a query's name is below.
fn nearest(negative_zones: &[NegativeZone], query: &Query<'_>) -> Option<usize> {
    let mut best = None;
    for (index, negative_zone) in negative_zones.iter().enumerate() {
        let labels = negative_zone.labels_above(query);
        if labels > best.map(|(labels, _)| labels) {
            best = labels.map(|labels| (labels, index));
        }
    }
    best.map(|(_, index)| index)
}
