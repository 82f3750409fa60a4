"""The tap: the last queries, or a fair sample of those since it was emptied, for inspecting the server.

Path: after step 7; batch.py adds a batch's hits after they are sent, table.py those over TCP, and the server the
queries that the chain answered.  server/query_tap.py takes them.  Twin of native/src/tap.rs.
Rule 1: while closed, it costs one check of `mode` per batch.
Rule 2: memory is bounded: LAST or SAMPLE queries, each without the octets after its question.
Rule 3: a sample is a reservoir (algorithm R): each query since it was emptied is in it with the same probability, in
        whatever order they arrived, and the total number of queries is exact.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from hsdns.fastpath.hit_counts import TCP

CLOSED: Final = 0  # modes: nothing is taken
LAST_QUERIES: Final = 1  # the last queries
FAIR_SHARE: Final = 2
LAST: Final = 1024
SAMPLE: Final = 256
MAX_QUERY_LEN: Final = 12 + 255 + 4  # header, name, type and class
_ROOM: Final = {CLOSED: 0, LAST_QUERIES: LAST, FAIR_SHARE: SAMPLE}


class TapRecord(NamedTuple):
    """An answered query: as received, up to the end of its question if it is long.

    `address` is the client's socket address, `source` the number of the listener.  `flags` are the second 16 bits of
    the reply's header as sent, None if no reply was sent; `size` is its length in octets.  `seconds` is the time to the
    answer, for a hit over UDP that of its batch; `at` is the time of the answer, in monotonic seconds.  `is_hit`: the
    answer table had the reply.
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
        """The mode.  Setting it drops the contents; raise ValueError for a number that is no mode."""
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
        """Add a query that the chain has answered; the arguments are the members of TapRecord."""
        query = query[:MAX_QUERY_LEN]
        self._add(TapRecord(query, address, source, flags, size, seconds, at, is_tcp, False))

    def push_hits(
        self,
        hits: Iterable[tuple[bytes, bytes, bytes]],
        kinds: Iterable[int],
        source: int,
        end: int,
        duration: int,
    ) -> None:
        """Add the hits of a batch that ended at `end`: query, address and reply of each; times in nanoseconds."""
        seconds, at = duration / 1_000_000_000, end / 1_000_000_000
        for (query, address, reply), kind in zip(hits, kinds, strict=True):
            query, flags = query[:MAX_QUERY_LEN], reply[2] << 8 | reply[3]
            self._add(
                TapRecord(
                    query, address, source, flags, len(reply), seconds, at, bool(kind & TCP), True
                )
            )

    def take(self) -> tuple[int, list[TapRecord]]:
        """Remove and return the contents, oldest first, with the number of all queries since the last call."""
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
