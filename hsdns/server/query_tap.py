"""The recent queries of the process, with what became of them.

Path: lifecycle.py makes one; the fast path and query.py fill it after step 7; control/queries.py and control/top.py
read it.
Rule 1: while nothing looks, the tap of the fast path is closed, or has the last queries where the server was started to
        keep them.  While something looks, it takes a fair share, and `weight` says for how many queries each stands.
Rule 2: nothing runs by itself: a reader has what the tap holds collected, at most every POLL seconds, and all readers
        read the same history.
Rule 3: memory is bounded: the tap, and HISTORY queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from hsdns.chain import Endpoint
from hsdns.fastpath import Tap, TapRecord
from hsdns.fastpath.tap import CLOSED, FAIR_SHARE, LAST_QUERIES
from hsdns.server.datagram import client_endpoint, socket_address
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import rcode_to_text, type_to_text
from hsdns.wire.message import TC
from hsdns.wire.name import MAX_LABEL_LEN, Name

POLL: Final = 0.1  # seconds
HISTORY: Final = 4096
TRANSPORTS: Final = {
    "tls": "dot",
    "https": "doh",
}  # by the scheme of the listener; others are udp and tcp


class SeenQuery(NamedTuple):
    """A query that was answered.

    `time` of the answer in seconds since the epoch, `seconds` that it took; `rcode` is None where no reply was sent.
    `weight` is the number of queries that it stands for: 1 unless more came than were taken.  `port` is the client's.
    `at` is a monotonic time.
    """

    time: float
    server: str
    client: str
    transport: str
    name: Name
    type: str
    rcode: str | None
    seconds: float
    is_hit: bool
    is_truncated: bool
    size: int
    weight: float
    port: int = 0
    at: float = 0.0


class QueryTap:
    """Recent queries, for readers on the loop; `clock` gives monotonic seconds, `wall` those since the epoch.

    `keeps`: the last queries are there before anything looks.
    """

    def __init__(
        self, clock: Callable[[], float], wall: Callable[[], float], *, keeps: bool = False
    ) -> None:
        self.tap = Tap()
        self.keeps = keeps
        self.seen = 0  # queries since the tap was opened, as far as they were collected
        self.collected = 0  # how many of them have come into the history
        self._history: deque[SeenQuery] = deque(maxlen=HISTORY)
        self._readers = 0
        self._at = float("-inf")  # when it was last collected
        self._servers: list[str] = []
        self._clock, self._wall = clock, wall
        self.tap.mode = self._idle_mode

    @property
    def is_open(self) -> bool:
        """Whether queries are taken."""
        return self.keeps or self._readers > 0

    def source(self, server: str) -> int:
        """The number of a listener, by its name in metrics."""
        if server not in self._servers:
            self._servers.append(server)
        return self._servers.index(server)

    def add(
        self,
        server: str,
        query: bytes,
        client: Endpoint,
        protocol: str,
        began: float,
        reply: bytes | None,
    ) -> None:
        """Add what a chain has answered."""
        now = self._clock()
        self.tap.push(
            query,
            socket_address(client),
            source=self.source(server),
            flags=None if reply is None else reply[2] << 8 | reply[3],
            size=0 if reply is None else len(reply),
            seconds=max(now - began, 0.0),
            at=now,
            is_tcp=protocol == "tcp",
        )

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Take a fair share of the queries while a reader looks."""
        self._readers += 1
        if self._readers == 1:
            self._change_mode(FAIR_SHARE)
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._change_mode(self._idle_mode)

    def collect(self) -> None:
        """Put what has come into the history, if POLL seconds are over since the last time."""
        if self._clock() - self._at >= POLL:
            self._collect()

    def last(self) -> list[SeenQuery]:
        """The queries that there are, oldest first; those of the last moment too."""
        self._collect()
        return list(self._history)

    def since(self, position: int) -> Iterator[SeenQuery]:
        """What has come into the history after it had `position` queries, as far as it is still there."""
        missing = max(len(self._history) - (self.collected - position), 0)
        return islice(self._history, missing, None)

    @property
    def _idle_mode(self) -> int:
        return LAST_QUERIES if self.keeps else CLOSED

    def _change_mode(self, mode: int) -> None:
        self._collect()
        self.tap.mode = mode

    def _collect(self) -> None:
        self._at = now = self._clock()
        is_share = self.tap.mode == FAIR_SHARE
        seen, records = self.tap.take()
        self.seen += seen
        weight = seen / len(records) if is_share and records else 1.0
        offset = self._wall() - now
        for record in records:
            found = self._read(record, offset, weight)
            if found is not None:
                self._history.append(found)
                self.collected += 1

    def _read(self, record: TapRecord, offset: float, weight: float) -> SeenQuery | None:
        question = _read_question(record.query)
        if question is None:
            return None
        name, qtype = question
        server, client = self._servers[record.source], client_endpoint(record.address)
        flags = record.flags
        return SeenQuery(
            record.at + offset,
            server,
            client.address,
            TRANSPORTS.get(server.partition("://")[0], "tcp" if record.is_tcp else "udp"),
            name,
            type_to_text(qtype),
            None if flags is None else rcode_to_text(flags & 15),
            record.seconds,
            record.is_hit,
            flags is not None and bool(flags & TC),
            record.size,
            weight,
            client.port,
            record.at,
        )


def _read_question(query: bytes) -> tuple[Name, int] | None:
    """Name and type of the first question; None if there is none that can be read."""
    at = HEADER_LEN
    while at < len(query) and 0 < query[at] <= MAX_LABEL_LEN:
        at += 1 + query[at]
    if at + 5 > len(query) or query[at]:
        return None
    return Name(query[HEADER_LEN : at + 1]), int.from_bytes(query[at + 1 : at + 3], "big")
