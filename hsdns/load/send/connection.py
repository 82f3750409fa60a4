"""The connections of a load, sans I/O: DNS messages over TCP or TLS, the life of a connection, and queries on several.

Path: loop.py (a pool), pods.py -> here -> a Session: FramedSession here, or http2.py; octets go over sockets.py.
Source: RFC 1035 section 4.2.2, RFC 7766 sections 6.2.1.1 (any order of replies) and 8, RFC 7858.
Rule 1: a query that a connection takes before it is set up waits in it, and is sent when the set-up ends.
Rule 2: octets of a server never raise an exception: `broken` says what is wrong, and later octets are ignored.
Rule 3: IDs increase, and an ID that waits for its reply is not reused.

A pool assigns queries to connections, opens and closes them, and handles queries on lost ones:
Rule 1: queries go to `connections` clients in turn.  Each has one connection at a time, opened with its first query.
Rule 2: a query waits if no client has room; this wait, like the set-up, counts as latency, never as the generator's
        lateness.
Rule 3: a query whose connection ends before its reply is sent again over another one, at most TRIES times in all, as
        stub resolvers do, because servers may close connections at any time (RFC 7766 section 6.2.4).  If a set-up
        fails, the queries of that connection are lost.
Rule 4: a connection without a reply since a query on it that is now lost was sent is abandoned.
Rule 5: a connection that has had all its queries stays open for `idle`; its client gets a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import msgspec

from hsdns.load.counters import AT_END, CLOSED, IDLE, RESET, SILENT, SPENT, ConnectionsReport, count
from hsdns.load.outcome import LOST, NOT_SENT, WHY_UNMATCHED
from hsdns.load.plan import STAYS, StreamPlan
from hsdns.load.send.loop import HEADER_LEN, Ended, Query
from hsdns.wire.framing import FrameBuffer

IDS: Final = 65_536
MOST_IN_FLIGHT: Final = 60_000


class QueryResult(NamedTuple):
    """The result of a query on a connection: its reply with any ID, or none for the reason `why`.

    `query` None: a message that is no reply to a query that waits.  `why` "": the server has not processed the query.
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
                self.broken = "sends what is not a DNS message"
                break
            key = message[0] << 8 | message[1]
            query = in_flight.get(key)
            why = None if query is None else query.misfit(message)
            if why is not None:  # the query goes on waiting
                found.append(QueryResult(None, message, WHY_UNMATCHED[why]))
                continue
            in_flight.pop(key, None)
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


@dataclass(eq=False)
class Connection:
    """A connection, for `most` queries at once and `in_all` in total (0: any number).  Times are nanoseconds."""

    session: Session
    most: int = MOST_IN_FLIGHT
    in_all: int = 0
    began: int = 0
    replied: int = 0  # when the last reply arrived
    given: int = 0  # queries so far
    waiting: deque[Query] = field(default_factory=deque)  # for the set-up, or for room
    client: Client = field(init=False)
    source: str = ""  # the address that it comes from; "" for that of the system
    link: Link = field(init=False)
    is_up: bool = False
    is_dirty: bool = False  # there may be octets to send
    is_blocked: bool = False  # the link did not take all octets

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


@dataclass(eq=False)
class Connections:
    """Moves octets between connections and their links; `open_link` makes a connecting one, and may raise OSError."""

    open_link: Callable[[Connection], Link]
    _open: set[Connection] = field(default_factory=set, kw_only=True)
    _dirty: list[Connection] = field(default_factory=list, kw_only=True)

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
        connection.link = self.open_link(connection)
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


TRIES: Final = 3  # connections that may end while a query waits
# Queries that are taken together, so that one write and one read carry many of them.
TURN: Final = 128


class Client(msgspec.Struct, eq=False):
    """A slot for connections from the address `source`; `is_listed` while it is among those that take queries."""

    connection: Connection | None = None
    is_listed: bool = True
    source: str = ""


@dataclass(eq=False)
class Pool(Connections):
    """Connections by `plan`, with times in nanoseconds; `open_session` makes what a new connection speaks."""

    plan: StreamPlan
    timeout: int
    open_session: Callable[[], Session]
    ended: Ended
    clock: Callable[[], int]
    turn: int = TURN
    unmatched: Callable[[int, int], None] = lambda why, at: None  # as in udp.py
    waits: int = 0  # queries
    counts: ConnectionsReport = field(default_factory=ConnectionsReport)
    _backlog: deque[Query] = field(default_factory=deque)
    _order: deque[Query] = field(default_factory=deque)
    _idle: dict[Connection, int] = field(default_factory=dict)  # since when, in order
    _taken: list[Query] = field(default_factory=list)  # since the last flush

    def __post_init__(self) -> None:
        self._free = deque(Client() for _ in range(self.plan.connections))
        # A query that was sent over UDP before is lost if this machine has no socket for it.
        self._refused = LOST if self.plan.for_truncated else NOT_SENT

    def ask(self, query: Query) -> None:
        """Take a query; it counts as sent at the next flush()."""
        self._taken.append(query)
        self._take(query)

    def take_truncated(self, query: Query) -> None:
        """Take a query whose answer over UDP was truncated; when it was sent stays."""
        self.counts.fell += 1
        self._take(query)

    def _take(self, query: Query) -> None:
        self.waits += 1
        self._order.append(query)
        self._place_or_wait(query)

    def flush(self) -> None:
        """Send the pending octets of the connections."""
        super().flush()
        if self._taken:
            sent = self.clock()
            for query in self._taken:
                query.sent = sent
            self._taken.clear()

    def can_read(self, connection: Connection) -> None:
        """Handle octets that have arrived on a connection."""
        super().can_read(connection)
        self._serve_backlog()

    def expire(self, now: int) -> None:
        """Give up queries after their timeout, and close connections after their idle time."""
        order, before = self._order, now - self.timeout
        while order and (order[0].is_over or order[0].sent <= before):
            query = order.popleft()
            if not query.is_over:
                self._time_out(query)
        while self._idle:
            connection, began = next(iter(self._idle.items()))
            if began > now - self.plan.idle:
                break
            self.end(connection, SPENT if connection.is_spent else IDLE)
        self._serve_backlog()

    def close(self) -> None:
        """Close all connections, and drop the queries."""
        for connection in list(self._open):
            for query in connection.rest():
                query.is_over = True
            self.end(connection, AT_END)

    def _place(self, query: Query) -> bool:
        """Assign a query to a client; return False if none has room."""
        while self._free:
            client = self._free.popleft()
            client.is_listed = False
            if self._place_at(client, query):
                return True
        return False

    def _place_at(self, client: Client, query: Query) -> bool:
        """Assign a query to a client; return False if that has no room."""
        try:
            connection = client.connection or self._open_for(client)
        except OSError:  # this machine has no socket left
            self._list(client)
            self._lose(query, self._refused)
            return True
        if not connection.has_room:
            return False
        connection.ask(query)
        self._idle.pop(connection, None)
        self.mark_dirty(connection)
        self._list(client)
        return True

    def _place_or_wait(self, query: Query) -> None:
        if not self._place(query):
            self._backlog.append(query)

    def _serve_backlog(self) -> None:
        backlog = self._backlog
        while backlog and (backlog[0].is_over or self._place(backlog[0])):
            backlog.popleft()

    def _open_for(self, client: Client) -> Connection:
        """Open a connection; raise OSError if this machine cannot."""
        plan = self.plan
        connection = Connection(self.open_session(), plan.pipeline, plan.queries, self.clock())
        connection.source = client.source
        self.begin(connection)
        connection.client, client.connection = client, connection
        return connection

    def _list(self, client: Client) -> None:
        if not client.is_listed and (client.connection is None or client.connection.has_room):
            client.is_listed = True
            self._free.append(client)

    def set_up(self, connection: Connection) -> None:
        """Count a connection that is set up."""
        self.counts.open_after(self.clock() - connection.began)

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Pass results on."""
        now = connection.replied = self.clock()
        for query, message, why in found:
            if query is None and why:
                self.unmatched(WHY_UNMATCHED.index(why), now)
            elif query is None or query.is_over:
                self.counts.late += 1
            elif message is not None:
                query.is_over = True
                self.waits -= 1
                self.ended(query, message, now)
            elif why:
                count(self.counts.without_answer, why)
                self._lose(query)
            else:
                self._again(query)

    def review(self, connection: Connection) -> None:
        """Close, replace or keep a connection after octets have arrived."""
        stays = self.plan.idle == STAYS
        if not connection.session.takes:
            waiting = list(connection.waiting)
            connection.waiting.clear()
            for query in waiting:
                self._again(query)
        if connection.is_quiet:
            if not connection.session.takes:
                self.end(connection, connection.session.leaves)
                return
            if connection.is_spent and stays:
                self.end(connection, SPENT)
                return
            if connection.is_spent:
                self._release(connection)
            if not stays:
                self._idle.setdefault(connection, self.clock())
        self._list(connection.client)

    def _release(self, connection: Connection) -> None:
        """Let a connection's client get another one."""
        client = connection.client
        if client.connection is connection:
            client.connection = None
            self._list(client)

    def end(self, connection: Connection, why: str) -> None:
        """Close a connection; its queries are sent again, unless it was never set up."""
        if connection not in self._open:
            return
        self.close_link(connection)
        self._idle.pop(connection, None)
        self._release(connection)
        count(self.counts.ended if connection.is_up else self.counts.not_opened, why)
        for query in connection.rest():
            if connection.is_up:
                self._again(query)
            elif not query.is_over:
                self._lose(query)

    def _again(self, query: Query) -> None:
        if query.is_over:
            return
        query.tries += 1
        query.connection = None
        if query.tries >= TRIES:
            self._lose(query)
        else:
            self.counts.asked_again += 1
            self._place_or_wait(query)

    def _time_out(self, query: Query) -> None:
        """Handle a query whose timeout is over."""
        self._lose(query)
        connection = query.connection
        if connection is not None and connection in self._open:
            connection.forget(query)
            self.mark_dirty(connection)
            if connection.replied <= query.sent:
                self.end(connection, SILENT)
            else:
                self.review(connection)

    def _lose(self, query: Query, why: int = LOST) -> None:
        query.is_over = True
        self.waits -= 1
        self.ended(query, b"", why)
