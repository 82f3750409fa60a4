"""The tap: the last queries, or a fair share of those that came since it was emptied, for who looks into the server.

Path: after step 7; batch.py adds a batch's hits once they are sent, table.py those over TCP, and the server what the
chain answered.  server/query_tap.py takes them.  Twin of native/src/tap.rs.
Rule 1: closed it costs a look at `mode` a batch.
Rule 2: memory is bounded: LAST or SAMPLE queries, each without what follows its question.
Rule 3: a sample is a reservoir (algorithm R): of all queries since it was emptied each is in it with the same
        probability, however they came, and the number of all of them is exact.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from hsdns.fastpath.hit_counts import TCP

CLOSED: Final = 0  # modes: nothing is taken
LAST_QUERIES: Final = 1  # the last ones
FAIR_SHARE: Final = 2
LAST: Final = 1024
SAMPLE: Final = 256
MAX_QUERY_LEN: Final = 12 + 255 + 4  # header, name, type and class
_ROOM: Final = {CLOSED: 0, LAST_QUERIES: LAST, FAIR_SHARE: SAMPLE}


class TapRecord(NamedTuple):
    """A query that was answered: as received, up to the end of its question if it is long.

    `address` is the client's socket address, `source` the number of the listener.  `flags` are the second 16 bits of
    the reply's header as sent, None where no reply was sent; `size` is its length in octets.  `seconds` is how long it
    took, for a hit over UDP its batch; `at` when it was answered, in monotonic seconds.  `is_hit`: the answer table had
    the reply.
    """

    query: bytes
    address: bytes
    source: int
    flags: int | None
    size: int
    seconds: float
    at: float
    is_tcp: bool
    is_hit: bool


class Tap:
    """The tap of a process, which takes nothing until `mode` is set to LAST_QUERIES or FAIR_SHARE."""

    def __init__(self) -> None:
        self._mode = CLOSED
        self._records: list[TapRecord] = []
        self._seen = 0
        self._random = random.Random(0)

    @property
    def mode(self) -> int:
        """What it takes.  To set it drops what it holds; raise ValueError for a number that is no mode."""
        return self._mode

    @mode.setter
    def mode(self, mode: int) -> None:
        if mode not in _ROOM:
            raise ValueError(f"a tap has no mode {mode}")
        self._mode, self._records, self._seen = mode, [], 0

    def push(
        self,
        query: bytes,
        address: bytes,
        *,
        source: int,
        flags: int | None,
        size: int,
        seconds: float,
        at: float,
        is_tcp: bool,
    ) -> None:
        """Add an answer of the chain; the members of TapRecord."""
        query = query[:MAX_QUERY_LEN]
        self._add(TapRecord(query, address, source, flags, size, seconds, at, is_tcp, False))

    def push_hits(
        self,
        hits: Iterable[tuple[bytes, bytes, int]],
        sizes: Iterable[int],
        kinds: Iterable[int],
        source: int,
        end: int,
        duration: int,
    ) -> None:
        """Add the hits of a batch that ended at `end`: query, address and flags of each; times in nanoseconds."""
        seconds, at = duration / 1_000_000_000, end / 1_000_000_000
        for (query, address, flags), size, kind in zip(hits, sizes, kinds, strict=True):
            query = query[:MAX_QUERY_LEN]
            is_tcp = bool(kind & TCP)
            self._add(TapRecord(query, address, source, flags, size, seconds, at, is_tcp, True))

    def take(self) -> tuple[int, list[TapRecord]]:
        """Take what it holds, oldest first, with the number of all queries since the last call."""
        seen, records = self._seen, self._records
        self._seen, self._records = 0, []
        if self._mode == FAIR_SHARE:
            records.sort(key=lambda record: record.at)
        elif seen > LAST:
            begin = seen % LAST
            records = records[begin:] + records[:begin]
        return seen, records

    def _add(self, record: TapRecord) -> None:
        room, seen = _ROOM[self._mode], self._seen
        if not room:
            return
        self._seen += 1
        if seen < room:
            self._records.append(record)
            return
        place = self._random.randrange(seen + 1) if self._mode == FAIR_SHARE else seen % room
        if place < room:
            self._records[place] = record
