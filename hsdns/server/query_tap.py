"""The recent queries of the process, with their replies.

Path: lifecycle.py makes one; the fast path and query.py add queries after step 7; control/queries.py
reads them.
Rule 1: without a reader, the tap of the fast path is closed, or keeps the last queries if the server was started to
        keep them.  With a reader, it takes a fair sample, and `weight` is the number of queries that each sampled query
        represents.
Rule 2: there is no timer: each reader collects the contents of the tap, at most every POLL seconds, and all readers
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
from hsdns.fastpath.hit_records import CLOSED, FAIR_SHARE, LAST_QUERIES
from hsdns.query import Show
from hsdns.server.transport.sockets import client_endpoint, socket_address
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import rcode_to_text, type_to_text
from hsdns.wire.message import TC
from hsdns.wire.name import MAX_LABEL_LEN, Name

POLL: Final = 0.1  # seconds
HISTORY: Final = 4096
TRANSPORTS: Final = {
    "tls": "dot",
    "https": "doh",
}  # by the scheme of the listener; other schemes are udp and tcp


class SeenQuery(NamedTuple):
    """An answered query.

    `time` of the reply in seconds since the epoch, `seconds` that it took; `rcode` is None if no reply was sent.
    `weight` is the number of queries that it represents: 1 unless the tap took only a sample.  `port` is the client's.
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
    """The recent queries, for readers on the loop; `clock` gives monotonic seconds, `wall` those since the epoch.

    `keeps`: it keeps the last queries even without a reader.
    """

    def __init__(
        self, clock: Callable[[], float], wall: Callable[[], float], *, keeps: bool = False
    ) -> None:
        self.tap = Tap()
        self.keeps = keeps
        self.seen = 0  # queries collected since the tap was opened
        self.collected = 0  # how many of them were added to the history
        self._history: deque[SeenQuery] = deque(maxlen=HISTORY)
        self._readers = 0
        self._at = float("-inf")  # when it was last collected
        self._servers: list[str] = []
        self._clock, self._wall = clock, wall
        self.tap.mode = self._idle_mode

    @property
    def is_open(self) -> bool:
        """Whether the tap is open."""
        return self.keeps or self._readers > 0

    def taker(self) -> Show | None:
        """What takes queries while it is open."""
        return self.add if self.is_open else None

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
        """Add a query that a chain has answered."""
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
        """Take a fair sample of the queries while a reader is connected."""
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
        """Add the contents of the tap to the history, at most every POLL seconds."""
        if self._clock() - self._at >= POLL:
            self._collect()

    def last(self) -> list[SeenQuery]:
        """All known queries, oldest first, including the latest."""
        self._collect()
        return list(self._history)

    def since(self, position: int) -> Iterator[SeenQuery]:
        """The queries added to the history after its first `position` queries, as far as it still has them."""
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
    """Name and type of the first question; None if there is no readable one."""
    at = HEADER_LEN
    while at < len(query) and 0 < query[at] <= MAX_LABEL_LEN:
        at += 1 + query[at]
    if at + 5 > len(query) or query[at]:
        return None
    return Name(query[HEADER_LEN : at + 1]), int.from_bytes(query[at + 1 : at + 3], "big")
