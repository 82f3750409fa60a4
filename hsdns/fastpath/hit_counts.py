"""Hit counts: the numbers from which `prometheus` and `cache` compute their metrics for hits of the answer table.

Path: table.py and batch.py add hits; the table's owner takes the counts before each scrape.  Twin of
native/src/hit_counts.rs.
Rule 1: a hit is counted by one number, its kind, which contains all counted properties: group << 48 | size << 16 |
        query length << 5 | cache outcome << 3 | DO << 2 | IPv6 << 1 | TCP.  If the hit is also logged (hit_records.py),
        LOGGED and the number of answer records are above these bits.  Equal kinds are counted together, so a batch
        costs one step for each of its kinds, and take_counts() does the rest.
Rule 2: memory is bounded: above MAX_KINDS, kinds are added to the rows of their groups.
Rule 3: durations are those of batches, in nanoseconds; rows are 64-bit counts as in the compiled twin.
Rule 4: a row has CELLS cells, named by the CELL_ constants: hits over IPv4 and IPv6, hits with DO, histograms of query
        sizes, reply sizes and durations, each as buckets and sum, and hits and misses of `cache`.  The buckets are
        those of hsdns/metrics.py, with one more for larger values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final, NamedTuple

from hsdns.metrics import SIZE_BUCKETS, TIME_BUCKETS

TCP: Final = 1
IPV6: Final = 2
DO: Final = 4
CACHE_HIT: Final = 1 << 3
CACHE_MISS: Final = 2 << 3
SIZE_SHIFT: Final = 16
LENGTH_SHIFT: Final = 5
ANSWERS_SHIFT: Final = 81
LOGGED: Final = 1 << 80  # group and size have 32 bits each

_GROUP_SHIFT: Final = 48
_32_BITS: Final = 0xFFFF_FFFF

_SIZES: Final = len(SIZE_BUCKETS) + 1
_TIMES: Final = len(TIME_BUCKETS) + 1
_TIME_BOUNDS: Final = tuple(round(bound * 1_000_000_000) for bound in TIME_BUCKETS)

# The index of each count in a row of cells, or of the first bucket of a histogram.
CELL_IPV4: Final = 0
CELL_IPV6: Final = 1
CELL_DO: Final = 2
CELL_REQUEST_SIZES: Final = 3
CELL_REQUEST_SUM: Final = CELL_REQUEST_SIZES + _SIZES
CELL_REPLY_SIZES: Final = CELL_REQUEST_SUM + 1
CELL_REPLY_SUM: Final = CELL_REPLY_SIZES + _SIZES
CELL_TIMES: Final = CELL_REPLY_SUM + 1
CELL_TIME_SUM: Final = CELL_TIMES + _TIMES
CELL_CACHE_HITS: Final = CELL_TIME_SUM + 1
CELL_CACHE_MISSES: Final = CELL_CACHE_HITS + 1
CELLS: Final = CELL_CACHE_MISSES + 1

MAX_KINDS: Final = 1024

Row = tuple[int, bool, list[int]]


def kind_of(group: int, size: int, answers: int | None = None, cache: int = 0) -> int:
    """The kind of a hit over UDP and IPv4, without the length and DO of the query.

    `answers` is the number of answer records of a hit that is logged, None for others; `cache` is CACHE_HIT, CACHE_MISS
    or 0.
    """
    logged = 0 if answers is None else answers << ANSWERS_SHIFT | LOGGED
    return logged | group << _GROUP_SHIFT | size << SIZE_SHIFT | cache


def size_of(kind: int) -> int:
    """The size of the reply in a kind: octets without compression and OPT."""
    return kind >> SIZE_SHIFT & _32_BITS


def row_of(kind: int) -> int:
    """The row of a kind: group << 1 | TCP."""
    return (kind >> _GROUP_SHIFT & _32_BITS) << 1 | kind & TCP


class AnswerTableStatistics(NamedTuple):
    """The contents of a table, and its counts so far.

    `misses` are plain queries that neither an entry nor a negative zone answered, `not_plain` those not looked up;
    `forwarded` are the numbers of entries that compiled code has stored for `forward`, by group.
    """

    entries: int
    octets: int
    hits: int
    misses: int
    negative_hits: int
    stored: int
    refused: int
    stale: int
    evicted: int
    not_plain: int
    forwarded: Sequence[tuple[int, int]]


class HitCounter:
    """Counts the hits of one table; a lock prevents a scrape in another thread from reading half a batch."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kinds: dict[int, dict[int, int]] = {}  # duration bucket -> kind -> hits
        self._times: dict[int, int] = {}  # row -> nanoseconds
        self._rows: dict[int, list[int]] = {}  # row -> cells
        self._count = 0

    def add(self, kinds: Sequence[int], nanoseconds: int) -> None:
        """Count the hits of one batch, each with this duration."""
        bucket = bisect_left(_TIME_BOUNDS, nanoseconds)
        with self._lock:
            found = self._kinds.get(bucket)
            if found is None:
                found = self._kinds[bucket] = {}
            before = len(found)
            times = self._times
            for kind, count in Counter(kinds).items():
                found[kind] = found.get(kind, 0) + count
                row = row_of(kind)
                times[row] = times.get(row, 0) + count * nanoseconds
            self._count += len(found) - before
            if self._count > MAX_KINDS:
                self._fold()

    def take_counts(self) -> list[Row]:
        """Return a row of cells for each group and transport that had hits, and reset the counts to 0."""
        with self._lock:
            self._fold()
            rows, self._rows = self._rows, {}
        return [(row >> 1, bool(row & 1), cells) for row, cells in rows.items()]

    def _fold(self) -> None:
        for bucket, kinds in self._kinds.items():
            for kind, count in kinds.items():
                self._fold_kind(kind, count, bucket)
        for row, nanoseconds in self._times.items():
            self._rows[row][CELL_TIME_SUM] += nanoseconds
        self._kinds, self._times, self._count = {}, {}, 0

    def _fold_kind(self, kind: int, count: int, bucket: int) -> None:
        row = row_of(kind)
        cells = self._rows.get(row)
        if cells is None:
            cells = self._rows[row] = [0] * CELLS
        size, length = size_of(kind), kind >> LENGTH_SHIFT & 0x7FF
        cells[CELL_IPV6 if kind & IPV6 else CELL_IPV4] += count
        if kind & DO:
            cells[CELL_DO] += count
        cells[CELL_REQUEST_SIZES + bisect_left(SIZE_BUCKETS, length)] += count
        cells[CELL_REQUEST_SUM] += count * length
        cells[CELL_REPLY_SIZES + bisect_left(SIZE_BUCKETS, size)] += count
        cells[CELL_REPLY_SUM] += count * size
        cells[CELL_TIMES + bucket] += count
        if kind & CACHE_HIT:
            cells[CELL_CACHE_HITS] += count
        elif kind & CACHE_MISS:
            cells[CELL_CACHE_MISSES] += count
