"""The log ring: hits to be logged, between the table and the `log` plugin.

Path: after step 2; batch.py adds the hits of logging blocks after they are sent, table.py those over TCP; the `log`
plugin takes them.  Twin of native/src/log.rs.
Rule 1: a record has the values of a log line that cannot be determined later: the query as received, the header's flags
        as sent, and the counted properties.
Rule 2: it is bounded in records and in octets of queries; further records are dropped and counted.
Rule 3: hits that are not logged cost nothing: LOGGED is part of a hit's kind (hit_counts.py), and only tables that
        store replies of logging blocks check it, once a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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
