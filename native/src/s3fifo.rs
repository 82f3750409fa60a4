//! Eviction: chooses the entry to drop if memory is short, by S3-FIFO (Yang et al., SOSP 2023).
//!
//! S3-FIFO was chosen because a hit costs one relaxed store and reorders no list, so readers share the table, and
//! because names that are queried only once pass through the small queue only.
//!
//! Rule 1: a new entry goes to the small queue (a tenth of the memory), or to the main queue if it was evicted from the
//!         small queue a short time ago: the ghosts record this by hash.
//! Rule 2: an entry at the end of the small queue moves to the main queue if it was used more than once; otherwise it
//!         is evicted.
//! Rule 3: an entry at the end of the main queue returns to its beginning once for each use; otherwise it is evicted.
//! Rule 4: an entry whose versions have changed is evicted when it reaches the end of a queue, used or not.
//! Rule 5: the work for one eviction is bounded, because the table is locked meanwhile.

use std::collections::VecDeque;

/// The interface of entries to the queues.
pub trait Entries {
    /// The memory of an entry in octets.
    fn memory_len(&self, slot: u32) -> usize;
    /// The hash of its key.
    fn hash(&self, slot: u32) -> u64;
    /// Its recent use count.
    fn frequency(&self, slot: u32) -> u8;
    /// Set its recent use count.
    fn set_frequency(&mut self, slot: u32, frequency: u8);
    /// Record that it is in the main queue now.
    fn move_to_main(&mut self, slot: u32);
    /// Return whether it can never be a hit again.
    fn is_stale(&self, slot: u32) -> bool;
}

/// The number of uses in the small queue that moves an entry to the main queue.
const USES_TO_STAY: u8 = 2;
/// The number of entries that may be moved for one eviction.
const MAX_ROUNDS: usize = 64;
/// Octets of the table's capacity for each ghost: entries are rarely smaller.
const OCTETS_PER_GHOST: usize = 256;
const MAX_GHOSTS: usize = 1 << 20;

/// The two queues of slots, oldest at the front, and the ghosts.
pub struct Queues {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    small_octets: usize,
    main_octets: usize,
    small_share: usize,
    ghosts: Ghosts,
}

impl Queues {
    /// Make empty queues for a table of this many octets.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_octets: 0,
            main_octets: 0,
            small_share: capacity / 10,
            ghosts: Ghosts::new(capacity / OCTETS_PER_GHOST),
        }
    }

    /// Octets of all entries.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.small_octets + self.main_octets
    }

    /// Add a new entry; return whether it went to the main queue.
    pub fn push(&mut self, slot: u32, hash: u64, octets: usize) -> bool {
        let is_back = self.ghosts.take(hash, self.main.len() + self.small.len());
        if is_back {
            self.main.push_back(slot);
            self.main_octets += octets;
        } else {
            self.small.push_back(slot);
            self.small_octets += octets;
        }
        is_back
    }

    /// Count the memory of an entry that replaced another one with its key.
    pub fn resize(&mut self, is_in_main: bool, before: usize, after: usize) {
        let octets = if is_in_main {
            &mut self.main_octets
        } else {
            &mut self.small_octets
        };
        *octets = *octets - before + after;
    }

    /// Remove the next entry to evict, and return it; None if there are no entries.
    pub fn evict(&mut self, entries: &mut impl Entries) -> Option<u32> {
        for round in 0.. {
            let is_last = round >= MAX_ROUNDS;
            let from_small = self.small_octets > self.small_share || self.main.is_empty();
            let queue = if from_small {
                &mut self.small
            } else {
                &mut self.main
            };
            let slot = queue.pop_front()?;
            let octets = entries.memory_len(slot);
            let frequency = entries.frequency(slot);
            let is_evicted = is_last || entries.is_stale(slot);
            if from_small {
                self.small_octets -= octets;
                if is_evicted || frequency < USES_TO_STAY {
                    self.ghosts.add(entries.hash(slot));
                    return Some(slot);
                }
                self.main.push_back(slot);
                self.main_octets += octets;
                entries.set_frequency(slot, 0);
                entries.move_to_main(slot);
            } else if is_evicted || frequency == 0 {
                self.main_octets -= octets;
                return Some(slot);
            } else {
                self.main.push_back(slot);
                entries.set_frequency(slot, frequency - 1);
            }
        }
        None
    }

    /// Remove all entries.
    pub fn clear(&mut self) {
        self.small.clear();
        self.main.clear();
        self.small_octets = 0;
        self.main_octets = 0;
        self.ghosts.clear();
    }
}

/// Hashes of keys evicted from the small queue, each at an index given by the hash, with its eviction time.
struct Ghosts {
    places: Box<[(u32, u32)]>, // upper half of the hash; 1 + the number of hashes added before, modulo 2^32
    count: u32,
}

impl Ghosts {
    fn new(wanted: usize) -> Self {
        let len = wanted.clamp(16, MAX_GHOSTS).next_power_of_two();
        Self {
            places: vec![(0, 0); len].into_boxed_slice(),
            count: 0,
        }
    }

    fn place(&mut self, hash: u64) -> (&mut (u32, u32), u32) {
        let [low, high] = [hash & 0xFFFF_FFFF, hash >> 32].map(|half| half as u32);
        let index = low as usize & (self.places.len() - 1);
        (&mut self.places[index], high)
    }

    fn add(&mut self, hash: u64) {
        self.count = self.count.wrapping_add(1);
        let count = self.count;
        let (place, half) = self.place(hash);
        *place = (half, count);
    }

    /// Return whether a hash is among the last `window` added ones, and remove it.
    fn take(&mut self, hash: u64, window: usize) -> bool {
        let now = self.count;
        let (place, half) = self.place(hash);
        let is_recent =
            place.1 != 0 && place.0 == half && now.wrapping_sub(place.1) as usize <= window.max(16);
        if is_recent {
            *place = (0, 0);
        }
        is_recent
    }

    fn clear(&mut self) {
        self.places.fill((0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of one octet whose slot is their hash.
    #[derive(Default)]
    struct Uses {
        frequency: Vec<u8>,
        in_main: Vec<u32>,
        stale: Vec<u32>,
    }

    impl Entries for Uses {
        fn memory_len(&self, _: u32) -> usize {
            1
        }
        fn hash(&self, slot: u32) -> u64 {
            u64::from(slot)
        }
        fn frequency(&self, slot: u32) -> u8 {
            self.frequency[slot as usize]
        }
        fn set_frequency(&mut self, slot: u32, frequency: u8) {
            self.frequency[slot as usize] = frequency;
        }
        fn move_to_main(&mut self, slot: u32) {
            self.in_main.push(slot);
        }
        fn is_stale(&self, slot: u32) -> bool {
            self.stale.contains(&slot)
        }
    }

    fn filled(frequency: &[u8]) -> (Queues, Uses) {
        let mut queues = Queues::new(10); // one octet for the small queue
        for slot in 0..frequency.len() as u32 {
            assert!(!queues.push(slot, u64::from(slot), 1));
        }
        let frequency = frequency.to_vec();
        let uses = Uses {
            frequency,
            ..Uses::default()
        };
        (queues, uses)
    }

    #[test]
    fn what_was_used_more_than_once_stays() {
        let (mut queues, mut uses) = filled(&[0, 3, 1, 2, 0]);
        let gone: Vec<_> = std::iter::from_fn(|| queues.evict(&mut uses))
            .take(2)
            .collect();
        assert_eq!(gone, [0, 2]);
        assert_eq!(uses.in_main, [1]);
        assert_eq!(queues.octets(), 3);
    }

    #[test]
    fn what_comes_back_soon_goes_to_the_main_queue() {
        let (mut queues, mut uses) = filled(&[0, 0, 0]);
        assert_eq!(queues.evict(&mut uses), Some(0));
        assert!(queues.push(0, 0, 1), "its ghost was there");
        assert_eq!(queues.evict(&mut uses), Some(1));
        assert!(!queues.push(1, 99, 1), "another hash");
        queues.clear();
        assert!(!queues.push(1, 1, 1), "ghosts are forgotten");
        assert_eq!(queues.octets(), 1);
    }

    #[test]
    fn the_main_queue_goes_round_for_each_use() {
        let (mut queues, mut uses) = filled(&[2, 2, 2]);
        // Two entries move to the main queue with no uses left; the third stays alone in its share of the small queue.
        assert_eq!(queues.evict(&mut uses), Some(0));
        assert_eq!(uses.in_main, [0, 1]);
        uses.frequency[1] = 3;
        assert!(!queues.push(0, 1000, 1));
        uses.frequency[0] = 0;
        uses.frequency[2] = 0;
        assert_eq!(
            queues.evict(&mut uses),
            Some(2),
            "the small queue is over its share"
        );
        assert_eq!(queues.evict(&mut uses), Some(1), "after three rounds");
        assert_eq!(uses.frequency[1], 0);
    }

    #[test]
    fn what_is_stale_goes_however_often_it_was_used() {
        let (mut queues, mut uses) = filled(&[3, 3]);
        uses.stale.push(0);
        assert_eq!(queues.evict(&mut uses), Some(0));
    }

    #[test]
    fn the_work_is_bounded() {
        let (mut queues, mut uses) = filled(&[3; 1000]);
        assert!(queues.evict(&mut uses).is_some());
        assert!(uses.in_main.len() <= MAX_ROUNDS);
        assert_eq!(queues.octets(), 999);
    }
}
