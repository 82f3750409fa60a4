"""The connections of a load: assigns queries to them, opens and closes them, and handles queries on lost ones.

Path: loop.py passes queries -> here -> connection.py; sockets are links of sockets.py.
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
from typing import Final

import msgspec

from hsdns.load.counters import AT_END, IDLE, SILENT, SPENT, ConnectionsReport, count
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.plan import STAYS, StreamPlan
from hsdns.load.send.connection import Connection, Connections, Link, QueryResult, Session
from hsdns.load.send.loop import Ended, Query

TRIES: Final = 3  # connections that may end while a query waits
# Queries that are taken together, so that one write and one read carry many of them.
TURN: Final = 128


class Client(msgspec.Struct, eq=False):
    """A slot for a connection; `is_listed` while it is among those that take queries."""

    connection: Connection | None = None
    is_listed: bool = True


class Pool(Connections):
    """Connections by `plan`; `timeout` and `clock` in nanoseconds.

    `open_session` makes what a new connection speaks, `open_link` a connecting socket (it may raise OSError).
    """

    def __init__(
        self,
        plan: StreamPlan,
        timeout: int,
        open_session: Callable[[], Session],
        open_link: Callable[[Connection], Link],
        ended: Ended,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(open_link)
        self._plan = plan
        self._timeout = timeout
        self._open_session = open_session
        self._ended = ended
        self._clock = clock
        self._free = deque(Client() for _ in range(plan.connections))
        self._backlog: deque[Query] = deque()
        self._order: deque[Query] = deque()
        self._idle: dict[Connection, int] = {}  # since when, in order
        self._taken: list[Query] = []  # since the last flush
        # A query that was sent over UDP before is lost if this machine has no socket for it.
        self._refused = LOST if plan.for_truncated else NOT_SENT
        self.turn = TURN
        self.counts = ConnectionsReport()
        self.waits = 0  # queries

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
            sent = self._clock()
            for query in self._taken:
                query.sent = sent
            self._taken.clear()

    def can_read(self, connection: Connection) -> None:
        """Handle octets that have arrived on a connection."""
        super().can_read(connection)
        self._serve_backlog()

    def expire(self, now: int) -> None:
        """Give up queries after their timeout, and close connections after their idle time."""
        order, before = self._order, now - self._timeout
        while order and (order[0].is_over or order[0].sent <= before):
            query = order.popleft()
            if not query.is_over:
                self._time_out(query)
        while self._idle:
            connection, began = next(iter(self._idle.items()))
            if began > now - self._plan.idle:
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
            try:
                connection = client.connection or self._open_for(client)
            except OSError:  # this machine has no socket left
                self._list(client)
                self._lose(query, self._refused)
                return True
            if connection.has_room:
                connection.ask(query)
                self._idle.pop(connection, None)
                self.mark_dirty(connection)
                self._list(client)
                return True
        return False

    def _place_or_wait(self, query: Query) -> None:
        if not self._place(query):
            self._backlog.append(query)

    def _serve_backlog(self) -> None:
        backlog = self._backlog
        while backlog and (backlog[0].is_over or self._place(backlog[0])):
            backlog.popleft()

    def _open_for(self, client: Client) -> Connection:
        """Open a connection; raise OSError if this machine cannot."""
        plan = self._plan
        connection = Connection(self._open_session(), plan.pipeline, plan.queries, self._clock())
        self.begin(connection)
        connection.client, client.connection = client, connection
        return connection

    def _list(self, client: Client) -> None:
        if not client.is_listed and (client.connection is None or client.connection.has_room):
            client.is_listed = True
            self._free.append(client)

    def set_up(self, connection: Connection) -> None:
        """Count a connection that is set up."""
        self.counts.open_after(self._clock() - connection.began)

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Pass results on."""
        now = connection.replied = self._clock()
        for query, message, why in found:
            if query is None or query.is_over:
                self.counts.late += 1
            elif message is not None:
                query.is_over = True
                self.waits -= 1
                self._ended(query, message, now)
            elif why:
                count(self.counts.without_answer, why)
                self._lose(query)
            else:
                self._again(query)

    def review(self, connection: Connection) -> None:
        """Close, replace or keep a connection after octets have arrived."""
        stays = self._plan.idle == STAYS
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
                self._idle.setdefault(connection, self._clock())
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
        self._ended(query, b"", why)
