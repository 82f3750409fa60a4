"""The log ring: hits that are to be logged, between the table and the `log` plugin.

Path: after step 2; batch.py adds the hits of logging blocks once they are sent, table.py those over TCP; the `log`
plugin takes them.  Twin of native/src/log.rs.
Rule 1: a record has what a log line needs and what cannot be found out later: the query as received, the header's flags
        as sent, and what is counted.
Rule 2: it is bounded in records and in octets of queries: what does not fit is dropped and counted.
Rule 3: hits that are not logged cost nothing: LOGGED is part of a hit's kind (hit_counts.py), and only tables that
        store replies of logging blocks examine it, once a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from hsdns.fastpath.hit_counts import ANSWERS_SHIFT, LOGGED, TCP, size_of

MAX_RECORDS: Final = 65_536
MAX_OCTETS: Final = 16 * 1024 * 1024


class LogRecord(NamedTuple):
    """One hit: the query as received, the client's socket address as the kernel gives it.

    `flags` are the second 16 bits of the reply's header as sent.  `size` is the reply's length without compression and
    OPT, `answers` its records in the answer section; both are those before it was cut.  `seconds` is how long its batch
    took, over TCP it alone.
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
        self, hits: Sequence[tuple[bytes, bytes, int]], kinds: Sequence[int], nanoseconds: int
    ) -> None:
        """Add those hits of a batch whose kinds have LOGGED: query, address and header flags of each."""
        seconds = nanoseconds / 1_000_000_000
        for (query, address, flags), kind in zip(hits, kinds, strict=True):
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
                    flags,
                    size_of(kind),
                    kind >> ANSWERS_SHIFT,
                    seconds,
                    bool(kind & TCP),
                )
            )

    def take(self, most: int) -> list[LogRecord]:
        """Take the oldest, at most so many; raise OverflowError for a negative number."""
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
