//! The entries of a table: found by key, and evicted where they would take more memory than it has.
//!
//! Rule 1: memory for entries is reserved at the start, so that growing never copies all of them under the table's lock.
//! Rule 2: an entry keeps its slot until it is evicted; one that replaces it takes its slot and its place in the queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::Entry;
use crate::index::Index;
use crate::s3fifo::{self, Queues};
use crate::system::prefetch;
use crate::versions::Versions;

/// No entry is smaller.  Memory for this many is reserved at the start, and the kernel provides it on first use.
const SMALLEST_ENTRY_LEN: usize = 256;
const MOST_ENTRIES: usize = 1 << 20;

/// The entries, by key.
pub struct Entries {
    index: Index,
    slots: Slots,
    free: Vec<u32>,
    queues: Queues,
    /// The number of entries that forwarders have stored, by the row of counters for their hits.
    forwarded: BTreeMap<u32, u64>,
}

/// The entries by number, for the index and the queues.
struct Slots {
    entries: Vec<Option<Entry>>,
    hashes: Vec<u64>,
    versions: Arc<Versions>,
}

impl Entries {
    /// Make place for entries of `capacity` octets.
    #[must_use]
    pub fn new(versions: Arc<Versions>, capacity: usize) -> Self {
        let most = (capacity / SMALLEST_ENTRY_LEN).min(MOST_ENTRIES);
        Self {
            index: Index::new(),
            slots: Slots {
                entries: Vec::with_capacity(most),
                hashes: Vec::with_capacity(most),
                versions,
            },
            free: Vec::new(),
            queues: Queues::new(capacity),
            forwarded: BTreeMap::new(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Return whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The memory of all in octets.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.queues.octets()
    }

    /// How many of them forwarders have stored, by the row of counters for their hits.
    #[must_use]
    pub fn forwarded(&self) -> Vec<(u32, u64)> {
        let counts = self.forwarded.iter();
        counts.map(|(&group, &count)| (group, count)).collect()
    }

    /// Find the slot of a key with this hash, most likely that of the key which is wanted, and prefetch it.
    #[inline]
    #[must_use]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        let slot = self.index.find(hash, |_| true)?;
        prefetch(&self.slots.entries[slot as usize]);
        Some(slot)
    }

    /// The entry in a slot.
    #[inline]
    #[must_use]
    pub fn entry(&self, slot: u32) -> Option<&Entry> {
        self.slots.entry(slot)
    }

    /// Find the entry of a key, in its likely slot first.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8], hash: u64, likely: Option<u32>) -> Option<&Entry> {
        let is_same = |&slot: &u32| self.slots.is_of(slot, key);
        let likely = likely.filter(is_same);
        let slot = likely.or_else(|| self.index.find(hash, is_same))?;
        self.slots.entry(slot)
    }

    /// Replace the entry with the same key, or add the entry, which takes at most `capacity` octets, as all will;
    /// return how many others were evicted.
    pub fn put(
        &mut self,
        mut entry: Entry,
        hash: u64,
        capacity: usize,
        renewed: bool,
        now: u64,
    ) -> u64 {
        let octets = entry.memory_len();
        if renewed {
            entry.unmark();
        }
        if entry.is_forwarded {
            *self.forwarded.entry(entry.group).or_default() += 1;
        }
        let same = |&slot: &u32| self.slots.is_of(slot, entry.key());
        if let Some(slot) = self.index.find(hash, same) {
            let place = &mut self.slots.entries[slot as usize];
            if let Some(old) = place {
                forget(&mut self.forwarded, old);
                entry.inherit(old, renewed, now);
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

    /// Drop all.
    pub fn clear(&mut self) {
        self.index.clear();
        self.slots.entries.clear();
        self.slots.hashes.clear();
        self.free.clear();
        self.queues.clear();
        self.forwarded.clear();
    }

    fn evict_above(&mut self, octets: usize) -> u64 {
        let mut evicted = 0;
        while self.queues.octets() > octets {
            let Some(slot) = self.queues.evict(&mut self.slots) else {
                break;
            };
            let hash = self.slots.hashes[slot as usize];
            self.index.remove(hash, slot);
            if let Some(entry) = self.slots.entries[slot as usize].take() {
                forget(&mut self.forwarded, &entry);
            }
            self.free.push(slot);
            evicted += 1;
        }
        evicted
    }
}

fn forget(forwarded: &mut BTreeMap<u32, u64>, entry: &Entry) {
    if let Some(count) = forwarded
        .get_mut(&entry.group)
        .filter(|_| entry.is_forwarded)
    {
        *count -= 1;
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

impl s3fifo::Entries for Slots {
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
            .is_none_or(|entry| !entry.is_valid(&self.versions))
    }
}
