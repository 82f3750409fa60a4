"""The log ring: hits to be logged, between the table and the `log` plugin.

Path: after step 2; batch.py adds the hits of logging blocks after they are sent, table.py those over TCP; the `log`
plugin takes them.  Twin of native/src/log.rs.
Rule 1: a record has the values of a log line that cannot be determined later: the query as received, the header's flags
        as sent, and the counted properties.
Rule 2: it is bounded in records and in octets of queries; further records are dropped and counted.
Rule 3: hits that are not logged cost nothing: LOGGED is part of a hit's kind (hit_counts.py), and only tables that
        store replies of logging blocks check it, once a batch.

The tap: the last queries, or a fair sample of those since it was emptied, for inspecting the server:
Rule 1: while closed, it costs one check of `mode` per batch.
Rule 2: memory is bounded: LAST or SAMPLE queries, each without the octets after its question.
Rule 3: a sample is a reservoir (algorithm R): each query since it was emptied is in it with the same probability, in
        whatever order they arrived, and the total number of queries is exact.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hsdns.fastpath.hit_counts import ANSWERS_SHIFT, LOGGED, TCP, size_of

MAX_RECORDS: Final = 65_536
MAX_OCTETS: Final = 16 * 1024 * 1024


class LogRecord(NamedTuple):
    """One hit: the query as received, and the client's socket address as received from the kernel.

    `flags` are the second 16 bits of the reply's header as sent.  `size` is the reply's length without compression and
    OPT, `answers` its records in the answer section; both before truncation.  `seconds` is the duration of its batch,
    or over TCP of this hit alone.
    """

    query: bytes
    address: bytes
    flags: int
    size: int
    answers: int
    seconds: float
    is_tcp: bool


class LogRing:
    """Records, oldest first; `dropped` is the number of those that did not fit."""

    def __init__(self) -> None:
        self.dropped = 0
        self._records: deque[LogRecord] = deque()
        self._octets = 0

    def push(
        self, hits: Sequence[tuple[bytes, bytes, bytes]], kinds: Sequence[int], nanoseconds: int
    ) -> None:
        """Add the hits of a batch whose kinds have LOGGED: query, address and reply of each."""
        seconds = nanoseconds / 1_000_000_000
        for (query, address, reply), kind in zip(hits, kinds, strict=True):
            if not kind & LOGGED:
                continue
            octets = self._octets + len(query)
            if len(self._records) >= MAX_RECORDS or octets > MAX_OCTETS:
                self.dropped += 1
                continue
            self._octets = octets
            self._records.append(
                LogRecord(
                    query,
                    address,
                    reply[2] << 8 | reply[3],
                    size_of(kind),
                    kind >> ANSWERS_SHIFT,
                    seconds,
                    bool(kind & TCP),
                )
            )

    def take(self, most: int) -> list[LogRecord]:
        """Remove and return the oldest records, at most this many; raise OverflowError for a negative number."""
        if most < 0:
            raise OverflowError(f"{most} records cannot be taken")
        found = [self._records.popleft() for _ in range(min(most, len(self._records)))]
        self._octets -= sum(len(record.query) for record in found)
        return found

    def discard(self) -> int:
        """Empty it, and return how many records there were."""
        count = len(self._records)
        self._records.clear()
        self._octets = 0
        return count


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
