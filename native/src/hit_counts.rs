//! Hit counts: each worker counts on its own, and adds its counts to the table's once per batch.
//!
//! Rule 1: a group is a row of cells; Python decides what it represents (server, zone, type, rcode ...).
//! Rule 2: a hit costs plain additions to memory of one thread; the shared rows are locked once per batch.
//! Rule 3: size and time buckets are those of hsdns/metrics.py: a value belongs to the first bound that is not below
//!         it.

use std::collections::BTreeMap;

/// The number of cells in a row.
pub const CELLS: usize = 55;
/// The cells of a group, in this order (hsdns/fastpath/hit_counts.py names them too).
pub type Cells = [u64; CELLS];

const BY_IPV4: usize = 0;
const BY_IPV6: usize = 1;
const WITH_DO: usize = 2;
const REQUEST_SIZES: usize = 3; // 14 classes and one above
const REQUEST_SIZE_SUM: usize = 18;
const REPLY_SIZES: usize = 19;
const REPLY_SIZE_SUM: usize = 34;
const DURATIONS: usize = 35; // 16 classes and one above
const DURATION_SUM: usize = 52;
const CACHE_HITS: usize = 53;
const CACHE_MISSES: usize = 54;

const SIZE_BOUNDS: [u64; 14] = [
    0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000,
];
const FIRST_TIME_BOUND: u64 = 250_000; // nanoseconds; each further bound is twice the one before
const TIME_BOUNDS: usize = 16;

/// The counted properties of a hit.
#[derive(Clone, Copy)]
pub struct Hit {
    /// The number of the row.
    pub group: u32,
    /// Whether the query was received over IPv6; an IPv4-mapped address is IPv4.
    pub is_ipv6: bool,
    /// Whether the query has DO.
    pub dnssec_ok: bool,
    /// Octets of the query.
    pub request_size: usize,
    /// Octets of the reply without compression and OPT.
    pub reply_size: u64,
    /// Whether it counts as hit or miss of `cache`; None: as neither.
    pub cache: Option<bool>,
}

/// The outcomes of queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Queries answered by an entry, or as the name of a Pod.
    pub hits: u64,
    /// Plain queries that were not answered.
    pub misses: u64,
    /// Queries for names that do not exist, answered by a negative zone.
    pub negative_hits: u64,
    /// Entries found whose versions had changed.
    pub stale: u64,
    /// Queries that were not looked up.
    pub not_plain: u64,
}

/// The counts of one batch.
#[derive(Default)]
pub struct BatchCounts {
    /// The outcomes of its queries.
    pub totals: Totals,
    rows: Vec<(u32, Cells)>,
}

impl BatchCounts {
    /// Count a hit without its duration.
    pub fn count(&mut self, hit: &Hit) {
        let index = self.rows.iter().position(|row| row.0 == hit.group);
        let index = index.unwrap_or_else(|| {
            self.rows.push((hit.group, [0; CELLS]));
            self.rows.len() - 1
        });
        let cells = &mut self.rows[index].1;
        let request_size = hit.request_size as u64;
        cells[if hit.is_ipv6 { BY_IPV6 } else { BY_IPV4 }] += 1;
        cells[WITH_DO] += u64::from(hit.dnssec_ok);
        cells[REQUEST_SIZES + size_class(request_size)] += 1;
        cells[REQUEST_SIZE_SUM] += request_size;
        cells[REPLY_SIZES + size_class(hit.reply_size)] += 1;
        cells[REPLY_SIZE_SUM] += hit.reply_size;
        match hit.cache {
            Some(true) => cells[CACHE_HITS] += 1,
            Some(false) => cells[CACHE_MISSES] += 1,
            None => {}
        }
    }
}

/// The counts of a table: outcomes since the start, rows since they were last taken.
#[derive(Default)]
pub struct HitCounter {
    /// The outcomes of all queries.
    pub totals: Totals,
    rows: BTreeMap<(u32, bool), Box<Cells>>,
}

impl HitCounter {
    /// Add the counts of a batch, with this duration for each of its hits, and clear them.
    pub fn absorb(&mut self, counts: &mut BatchCounts, is_tcp: bool, nanoseconds: u64) {
        let batch = std::mem::take(&mut counts.totals);
        let totals = &mut self.totals;
        totals.hits += batch.hits;
        totals.misses += batch.misses;
        totals.negative_hits += batch.negative_hits;
        totals.stale += batch.stale;
        totals.not_plain += batch.not_plain;
        let class = DURATIONS + time_class(nanoseconds);
        for (group, cells) in counts.rows.drain(..) {
            let row = self
                .rows
                .entry((group, is_tcp))
                .or_insert_with(|| Box::new([0; CELLS]));
            for (sum, cell) in row.iter_mut().zip(cells) {
                *sum += cell;
            }
            let hits = cells[BY_IPV4] + cells[BY_IPV6];
            row[class] += hits;
            row[DURATION_SUM] += hits * nanoseconds;
        }
    }

    /// Return and reset all rows: group, whether over TCP, cells.
    pub fn take_counts(&mut self) -> Vec<(u32, bool, Box<Cells>)> {
        std::mem::take(&mut self.rows)
            .into_iter()
            .map(|((group, is_tcp), cells)| (group, is_tcp, cells))
            .collect()
    }
}

/// Numbers of durations in each class, and above, then their sum in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations(pub [u64; TIME_BOUNDS + 2]);

impl Durations {
    /// Count one.
    pub fn add(&mut self, nanoseconds: u64) {
        self.0[time_class(nanoseconds)] += 1;
        self.0[TIME_BOUNDS + 1] += nanoseconds;
    }
}

fn size_class(octets: u64) -> usize {
    SIZE_BOUNDS.partition_point(|&bound| bound < octets)
}

fn time_class(nanoseconds: u64) -> usize {
    (0..TIME_BOUNDS)
        .find(|class| nanoseconds <= FIRST_TIME_BOUND << class)
        .unwrap_or(TIME_BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_belong_to_the_first_bound_not_below() {
        for (octets, class) in [(0, 0), (1, 1), (100, 1), (101, 2), (511, 5), (512, 6)] {
            assert_eq!(size_class(octets), class, "{octets}");
        }
        assert_eq!(size_class(64_000), 13);
        assert_eq!(size_class(64_001), 14);
    }

    #[test]
    fn times_belong_to_the_first_bound_not_below() {
        assert_eq!(time_class(0), 0);
        assert_eq!(time_class(250_000), 0);
        assert_eq!(time_class(250_001), 1);
        assert_eq!(time_class(250_000 << 15), 15);
        assert_eq!(time_class((250_000 << 15) + 1), 16);
        assert_eq!(time_class(u64::MAX), 16);
    }

    #[test]
    fn batches_add_up_and_drain_once() {
        let mut counts = BatchCounts::default();
        let mut counters = HitCounter::default();
        let hit = Hit {
            group: 4,
            is_ipv6: false,
            dnssec_ok: true,
            request_size: 40,
            reply_size: 120,
            cache: Some(false),
        };
        for _ in 0..2 {
            counts.count(&hit);
            counts.count(&Hit {
                is_ipv6: true,
                dnssec_ok: false,
                cache: Some(true),
                ..hit
            });
            counts.totals.hits += 2;
            counters.absorb(&mut counts, false, 300_000);
        }
        counters.absorb(&mut counts, true, 1);
        assert_eq!(counters.totals.hits, 4);
        let rows = counters.take_counts();
        assert_eq!(rows.len(), 1);
        let (group, is_tcp, cells) = &rows[0];
        assert_eq!((*group, *is_tcp), (4, false));
        let expected = [
            (BY_IPV4, 2),
            (BY_IPV6, 2),
            (WITH_DO, 2),
            (REQUEST_SIZES + 1, 4),
            (REQUEST_SIZE_SUM, 160),
            (REPLY_SIZES + 2, 4),
            (REPLY_SIZE_SUM, 480),
            (DURATIONS + 1, 4),
            (DURATION_SUM, 1_200_000),
            (CACHE_HITS, 2),
            (CACHE_MISSES, 2),
        ];
        let mut full = [0; CELLS];
        for (cell, value) in expected {
            full[cell] = value;
        }
        assert_eq!(**cells, full);
        assert!(counters.take_counts().is_empty());
    }
}
