"""The life of a connection, sans I/O: set-up, queries, end.

Path: pool.py -> here -> tls.py (DNS over TLS and HTTPS), a session: Framed here, or http2.py.
Rule 1: a query that it takes before it is set up waits in it, and is sent when the set-up ends.
Rule 2: octets of a server raise no exception: `broken` says what is wrong.

DNS messages over a connection, sans I/O: matches replies with queries:
Source: RFC 1035 section 4.2.2, RFC 7766 sections 6.2.1.1 (any order of replies) and 8, RFC 7858.
Rule 1: octets of a server never raise an exception: `broken` says what is wrong, and later octets are ignored.
Rule 2: IDs increase, and an ID that waits for its reply is not reused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from hsdns.load.counters import CLOSED, RESET
from hsdns.load.send.loop import HEADER_LEN, Query
from hsdns.load.send.tls import TlsFailure, TlsLayer
from hsdns.wire.framing import FrameBuffer

TRIES: Final = 3  # connections that may end while a query waits


class QueryResult(NamedTuple):
    """The result of a query on a connection: its reply with any ID, or none for the reason `why`.

    `query` None: a reply that no query waits for.  `why` "": the server has not processed the query.
    """

    query: Query | None
    message: bytes | None
    why: str = ""


IDS: Final = 65_536
MOST_IN_FLIGHT: Final = 60_000


class Session:
    """The interface of a session for connection.py: queries in flight by key, octets to send, and room."""

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
    """The socket of a connection."""

    def fault(self) -> str:
        """Why it could not connect; "" if it is connected."""

    def send(self, octets: bytes) -> int:
        """Send as many octets as there is room for; return their number; raise OSError."""

    def receive(self) -> bytes | None:
        """Return what has arrived: empty at the end, None for nothing; raise OSError."""

    def watch_writing(self, *, is_on: bool) -> None:
        """Start or stop watching for room to send."""

    def close(self) -> None:
        """Close it."""


class Client:
    """A slot for a connection; `is_listed` while it is among those that take queries."""

    __slots__ = ("connection", "is_listed")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_listed = True

    @property
    def has_room(self) -> bool:
        """Whether it takes a query now."""
        return self.connection is None or self.connection.has_room


class Connection:
    """A connection, for `most` queries at once and `in_all` in total (0: any number).  Times are nanoseconds."""

    __slots__ = (
        "began",
        "broken",
        "client",
        "given",
        "in_all",
        "is_dirty",
        "is_linked",
        "is_up",
        "link",
        "most",
        "replied",
        "session",
        "tls",
        "unsent",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, session: Session, tls: TlsLayer | None, most: int, in_all: int, now: int
    ) -> None:
        self.session = session
        self.tls = tls
        self.most = most
        self.in_all = in_all
        self.began = now
        self.replied = 0  # when the last reply arrived
        self.given = 0  # queries so far
        self.is_up = False
        self.broken = ""
        self.waiting: deque[Query] = deque()
        # For ConnectionGroup: its socket, whether that is connected, the octets it did not take; whether there is more.
        # For pool.py: its client.
        self.client: Client
        self.link: Link
        self.is_linked = False
        self.unsent = b""
        self.is_dirty = False

    @property
    def is_spent(self) -> bool:
        """Whether it will never take another query."""
        return bool(self.in_all and self.given >= self.in_all) or not self.session.takes

    @property
    def has_room(self) -> bool:
        """Whether it takes another query now."""
        session = self.session
        return (
            session.takes
            and not (self.in_all and self.given >= self.in_all)
            and len(session.in_flight) + len(self.waiting) < self.most
            and (not self.is_up or session.has_room)
        )

    @property
    def may_send(self) -> bool:
        """Whether there may be something to send."""
        return self.tls is not None or bool(self.session.out)

    @property
    def is_quiet(self) -> bool:
        """Whether no query waits for a reply."""
        return not self.session.in_flight and not self.waiting

    def ask(self, query: Query) -> None:
        """Take a query."""
        self.given += 1
        query.connection, query.key = self, -1
        if self.is_up and not self.waiting and self.session.has_room:
            self._send(query)
        else:
            self.waiting.append(query)

    def connect(self) -> None:
        """The socket is connected."""
        if self.tls is None:
            self._set_up()
        else:
            self._without_failure(self.tls.shake)

    def receive(self, octets: bytes) -> list[QueryResult]:
        """Process octets of the server; return the results of queries."""
        if self.tls is not None:
            plain = b""
            try:
                plain = self.tls.feed(octets)
            except TlsFailure as error:
                self.broken = str(error)
            if not self.is_up and self.tls.is_shaken:
                self._set_up()
            octets = plain
        found = self.session.feed(octets) if octets else []
        self.broken = self.broken or self.session.broken
        while self.waiting and self.session.has_room:
            self._send(self.waiting.popleft())
        return found

    @property
    def is_ended(self) -> bool:
        """Whether the server has announced the end."""
        return self.tls is not None and self.tls.is_over

    def take(self) -> bytes:
        """Take the octets to send."""
        out, tls = self.session.out, self.tls
        if tls is None:
            if not self.is_up:
                return b""
            octets = bytes(out)
            out.clear()
            return octets
        if out and tls.is_shaken and not self.broken:
            self._without_failure(lambda: tls.write(out))
            out.clear()
        return tls.take()

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

    def end(self) -> bytes:
        """Announce the end; return the last octets to send."""
        if not self.is_up or self.broken:
            return b""
        self.session.end()
        octets = self.take()
        if self.tls is not None:
            self.tls.end()
            octets += self.tls.take()
        return octets

    def _set_up(self) -> None:
        self.is_up = True
        while self.waiting and self.session.has_room:
            self._send(self.waiting.popleft())

    def _send(self, query: Query) -> None:
        query.key = self.session.ask(query)

    def _without_failure(self, do: Callable[[], None]) -> None:
        try:
            do()
        except TlsFailure as error:
            self.broken = str(error)


class ConnectionGroup:
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
                if connection in self._open:
                    self._write(connection)

    def can_write(self, connection: Connection) -> None:
        """Handle a connection that is connected, or has room again."""
        if connection not in self._open:
            return
        if not connection.is_linked:  # the first time
            fault = connection.link.fault()
            if fault:
                self.end(connection, fault)
                return
            connection.is_linked = True
            connection.connect()
            self._connected(connection)
        self._write(connection)

    def can_read(self, connection: Connection) -> None:
        """Handle octets that have arrived on a connection."""
        if connection not in self._open:
            return
        try:
            octets = connection.link.receive()
        except OSError as error:
            self.end(connection, _reset(error))
            return
        if octets is None:
            return
        if not octets:
            self.end(connection, connection.session.leaves or CLOSED)
            return
        was_up = connection.is_up
        found = connection.receive(octets)
        if not was_up:
            self._connected(connection)
        elif connection.may_send:
            self.mark_dirty(connection)
        if found:
            self.deliver(connection, found)
        if connection.broken:
            self.end(connection, connection.broken)
        elif connection.is_ended:
            self.end(connection, connection.session.leaves or CLOSED)
        else:
            self.review(connection)

    def close_link(self, connection: Connection) -> None:
        """Announce the end of a connection, and close its link."""
        self._open.discard(connection)
        try:
            last = connection.end()
            if last:
                connection.link.send(last)
        except OSError:
            pass  # the server has closed it
        connection.link.close()

    def _connected(self, connection: Connection) -> None:
        if connection.broken and not connection.is_up:
            self.end(connection, connection.broken)
        elif connection.is_up:
            self.set_up(connection)
        self.mark_dirty(connection)

    def _write(self, connection: Connection) -> None:
        if not connection.is_linked:
            return  # not connected yet
        octets, had = connection.take(), bool(connection.unsent)
        if connection.broken:
            self.end(connection, connection.broken)
            return
        if had:
            octets = connection.unsent + octets
        elif not octets:
            return
        link = connection.link
        try:
            sent = link.send(octets)
        except OSError as error:
            self.end(connection, _reset(error))
            return
        connection.unsent = octets[sent:]
        if bool(connection.unsent) != had:
            link.watch_writing(is_on=not had)


def _reset(error: OSError) -> str:
    return (
        RESET if isinstance(error, (ConnectionResetError, BrokenPipeError)) else f"{error.strerror}"
    )
