"""The connections of a load, sans I/O: DNS messages over TCP or TLS, the life of a connection, and its octets.

Path: pool.py, pods.py -> here -> a Session: FramedSession here, or http2.py; octets go over the links of sockets.py.
Source: RFC 1035 section 4.2.2, RFC 7766 sections 6.2.1.1 (any order of replies) and 8, RFC 7858.
Rule 1: a query that a connection takes before it is set up waits in it, and is sent when the set-up ends.
Rule 2: octets of a server never raise an exception: `broken` says what is wrong, and later octets are ignored.
Rule 3: IDs increase, and an ID that waits for its reply is not reused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from hsdns.load.counters import CLOSED, RESET
from hsdns.load.send.loop import HEADER_LEN, Query
from hsdns.wire.framing import FrameBuffer

if TYPE_CHECKING:
    from hsdns.load.send.pool import Client

IDS: Final = 65_536
MOST_IN_FLIGHT: Final = 60_000


class QueryResult(NamedTuple):
    """The result of a query on a connection: its reply with any ID, or none for the reason `why`.

    `query` None: a reply that no query waits for.  `why` "": the server has not processed the query.
    """

    query: Query | None
    message: bytes | None
    why: str = ""


class Session:
    """A protocol on a connection: queries in flight by key, octets to send, and room."""

    def __init__(self) -> None:
        self.in_flight: dict[int, Query] = {}
        self.out = bytearray()
        self.takes = True
        self.broken = ""
        self.leaves = ""  # why the server ends it, once it has announced that

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        raise NotImplementedError

    def ask(self, query: Query) -> int:
        """Send a query; return its key."""
        raise NotImplementedError

    def feed(self, octets: bytes) -> list[QueryResult]:
        """Process octets of the server."""
        raise NotImplementedError

    def forget(self, key: int) -> None:
        """Stop waiting for a reply."""
        self.in_flight.pop(key, None)

    def end(self) -> None:
        """Announce the end, if the protocol can."""


class FramedSession(Session):
    """Messages with a length prefix, over TCP or TLS."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameBuffer()
        self._next = 0

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        return len(self.in_flight) < MOST_IN_FLIGHT

    def ask(self, query: Query) -> int:
        """Send a query; return its ID."""
        in_flight, key = self.in_flight, self._next
        while key in in_flight:
            key = (key + 1) % IDS
        self._next = (key + 1) % IDS
        in_flight[key] = query
        octets = query.octets
        self.out += (len(octets) + 2 << 16 | key).to_bytes(4, "big") + octets
        return key

    def feed(self, octets: bytes) -> list[QueryResult]:
        """Process octets of the server."""
        found, in_flight = [], self.in_flight
        for message in self._frames.feed(octets):
            if len(message) < HEADER_LEN:
                self.broken = "sends what is no DNS message"
                break
            query = in_flight.pop(message[0] << 8 | message[1], None)
            found.append(QueryResult(query, message))
        return found


class Link(Protocol):
    """The socket of a connection, with TLS if there is any; its methods raise OSError."""

    def set_up(self) -> bool:
        """Go on with the set-up; return whether it is complete."""

    def send(self, octets: bytes | bytearray) -> int:
        """Send as many octets as there is room for; return their number."""

    def receive(self) -> tuple[bytes, bool]:
        """What has arrived, and whether the server has ended the connection."""

    def watch_writing(self, *, is_on: bool) -> None:
        """Start or stop watching for room to send."""

    def close(self) -> None:
        """Close it."""


class Connection:
    """A connection, for `most` queries at once and `in_all` in total (0: any number).  Times are nanoseconds."""

    def __init__(
        self, session: Session, most: int = MOST_IN_FLIGHT, in_all: int = 0, now: int = 0
    ) -> None:
        self.session = session
        self.most = most
        self.in_all = in_all
        self.began = now
        self.replied = 0  # when the last reply arrived
        self.given = 0  # queries so far
        self.waiting: deque[Query] = deque()  # for the set-up, or for room
        self.client: Client  # of pool.py
        self.link: Link
        self.is_up = False
        self.is_dirty = False  # there may be octets to send
        self.is_blocked = False  # the link did not take all octets

    @property
    def is_spent(self) -> bool:
        """Whether it will never take another query."""
        return bool(self.in_all and self.given >= self.in_all) or not self.session.takes

    @property
    def has_room(self) -> bool:
        """Whether it takes another query now."""
        session = self.session
        return (
            not self.is_spent
            and len(session.in_flight) + len(self.waiting) < self.most
            and (not self.is_up or session.has_room)
        )

    @property
    def is_quiet(self) -> bool:
        """Whether no query waits for a reply."""
        return not self.session.in_flight and not self.waiting

    def ask(self, query: Query) -> None:
        """Take a query."""
        self.given += 1
        query.connection, query.key = self, -1
        self.waiting.append(query)
        if self.is_up:
            self.send_waiting()

    def send_waiting(self) -> None:
        """Send as many of the waiting queries as there is room for."""
        while self.waiting and self.session.has_room:
            query = self.waiting.popleft()
            query.key = self.session.ask(query)

    def forget(self, query: Query) -> None:
        """Stop waiting for a reply."""
        if query.key >= 0:
            self.session.forget(query.key)
        else:
            self.waiting.remove(query)

    def rest(self) -> list[Query]:
        """Take all queries that wait for a reply, in order."""
        found = [*self.session.in_flight.values(), *self.waiting]
        self.session.in_flight.clear()
        self.waiting.clear()
        return found


class Connections:
    """Moves octets between connections and their links; `open_link` makes a connecting one, and may raise OSError."""

    def __init__(self, open_link: Callable[[Connection], Link]) -> None:
        self._open_link = open_link
        self._open: set[Connection] = set()
        self._dirty: list[Connection] = []

    def set_up(self, connection: Connection) -> None:
        """A connection is set up."""

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Results of queries have arrived."""
        raise NotImplementedError

    def review(self, connection: Connection) -> None:
        """Octets have arrived on a connection that stays open."""

    def end(self, connection: Connection, why: str) -> None:
        """A connection has ended: its link is to be closed, and nobody answers the rest of its queries."""
        raise NotImplementedError

    def begin(self, connection: Connection) -> None:
        """Open a connection; raise OSError if this machine cannot."""
        connection.link = self._open_link(connection)
        self._open.add(connection)

    def mark_dirty(self, connection: Connection) -> None:
        """There may be octets to send at the next flush()."""
        if not connection.is_dirty:
            connection.is_dirty = True
            self._dirty.append(connection)

    def flush(self) -> None:
        """Send the pending octets of the connections."""
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.is_dirty = False
                if connection in self._open and connection.is_up:
                    self._write(connection)

    def can_write(self, connection: Connection) -> None:
        """Handle a connection that is connected, or has room again."""
        if self._is_up(connection):
            self._write(connection)

    def can_read(self, connection: Connection) -> None:
        """Handle octets that have arrived on a connection."""
        if not self._is_up(connection):
            return
        session = connection.session
        try:
            octets, is_over = connection.link.receive()
        except OSError as error:
            self.end(connection, _reason(error))
            return
        if octets:
            found = session.feed(octets)
            connection.send_waiting()
            if session.out:
                self.mark_dirty(connection)
            if found:
                self.deliver(connection, found)
        if session.broken:
            self.end(connection, session.broken)
        elif is_over:
            self.end(connection, session.leaves or CLOSED)
        elif octets:
            self.review(connection)

    def close_link(self, connection: Connection) -> None:
        """Announce the end of a connection, and close its link."""
        self._open.discard(connection)
        session = connection.session
        with suppress(OSError):  # the server has closed it
            if connection.is_up and not session.broken:
                session.end()
                if session.out:
                    connection.link.send(session.out)
        connection.link.close()

    def _is_up(self, connection: Connection) -> bool:
        """Whether an open connection is set up; if not, go on with that."""
        if connection not in self._open or connection.is_up:
            return connection in self._open
        try:
            connection.is_up = connection.link.set_up()
        except OSError as error:
            self.end(connection, _reason(error))
            return False
        if connection.is_up:
            self.set_up(connection)
            connection.send_waiting()
            self.mark_dirty(connection)
        return connection.is_up

    def _write(self, connection: Connection) -> None:
        out, link = connection.session.out, connection.link
        if not out:
            return
        try:
            sent = link.send(out)
        except OSError as error:
            self.end(connection, _reason(error))
            return
        del out[:sent]
        if bool(out) != connection.is_blocked:
            connection.is_blocked = not connection.is_blocked
            link.watch_writing(is_on=connection.is_blocked)


def _reason(error: OSError) -> str:
    return (
        RESET if isinstance(error, (ConnectionResetError, BrokenPipeError)) else f"{error.strerror}"
    )
