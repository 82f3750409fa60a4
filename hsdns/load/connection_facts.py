"""Events of connections, passed from the process that sends to the one that counts.

Path: pool.py reports facts -> telling.py packs them into a message -> run.py -> results.py.
Rule 1: a set-up lasts from the request for a connection until it can send a query, including handshakes.
Rule 2: counts of two runs are added without loss (`merge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hsdns.load.histogram import Histogram

OPENED: Final = 0  # value: nanoseconds of the set-up
NOT_OPENED: Final = 1
ENDED: Final = 2
AGAIN: Final = 3  # a query is sent again, because its connection ended before the reply
LATE: Final = 4  # a reply that no query waits for
FAILED: Final = 5  # the response to a query is not a DNS message
FELL: Final = 6  # a query with a truncated answer over UDP is sent again over TCP

# Why connections end.
SPENT: Final = "had all its queries"
IDLE: Final = "idle"
CLOSED: Final = "closed by the server"
RESET: Final = "reset by the server"
SILENT: Final = "silent for the time-out"
AT_END: Final = "end of the run"

MOST_REASONS: Final = 50
OTHERS: Final = "others"


class Fact(NamedTuple):
    """A fact of some kind; `why` is its reason in words, if it has one."""

    kind: int
    value: int = 0
    why: str = ""


_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[int, int, str]])


def pack_facts(facts: Sequence[Fact]) -> bytes:
    """Facts as octets."""
    return msgspec.msgpack.encode(facts)


class ConnectionCounts:
    """Counts of the facts of a run; `setup` in microseconds, the others by reason."""

    def __init__(self) -> None:
        self.setup = Histogram()
        self.open = 0
        self.most_open = 0
        self.not_opened: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.again = 0
        self.late = 0
        self.fell = 0

    @property
    def opened(self) -> int:
        """The number of connections that were set up."""
        return self.setup.total

    def add(self, octets: bytes) -> None:
        """Count the facts of a message."""
        for kind, value, why in _DECODER.decode(octets):
            if kind == OPENED:
                self.setup.record(value // 1000)
                self.open += 1
                self.most_open = max(self.most_open, self.open)
            elif kind == ENDED:
                self.open -= 1
                _count(self.ended, why)
            elif kind == NOT_OPENED:
                _count(self.not_opened, why)
            elif kind == FAILED:
                _count(self.failed, why)
            elif kind == AGAIN:
                self.again += 1
            elif kind == LATE:
                self.late += 1
            elif kind == FELL:
                self.fell += 1

    def merge(self, other: ConnectionCounts) -> None:
        """Add the counts of another run; the maximum open at once is the sum of both."""
        self.setup.merge(other.setup)
        self.open += other.open
        self.most_open += other.most_open
        for mine, theirs in (
            (self.not_opened, other.not_opened),
            (self.ended, other.ended),
            (self.failed, other.failed),
        ):
            for why, count in theirs.items():
                _count(mine, why, count)
        self.again += other.again
        self.late += other.late
        self.fell += other.fell


def _count(counts: Counter[str], why: str, number: int = 1) -> None:
    """Count a reason; the number of different reasons is bounded, since a server can send a new one each time."""
    counts[why if why in counts or len(counts) < MOST_REASONS else OTHERS] += number
