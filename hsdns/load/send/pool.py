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

from hsdns.load.counters import (
    AT_END,
    IDLE,
    SILENT,
    SPENT,
    ConnectionsReport,
    count,
)
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.plan import STAYS, StreamPlan
from hsdns.load.send.connection import TRIES, Client, Connection, ConnectionGroup, Link, QueryResult
from hsdns.load.send.loop import Query, Receiver

TURN: Final = (
    128  # queries that are taken together, so that one write and one read carry many of them
)


class Pool(ConnectionGroup):
    """Connections by `plan`; `timeout` and `clock` in nanoseconds.

    `make` makes a connection at a given time, `open_link` a connecting socket (it may raise OSError).
    """

    def __init__(
        self,
        plan: StreamPlan,
        timeout: int,
        make: Callable[[int], Connection],
        open_link: Callable[[Connection], Link],
        receiver: Receiver,
        clock: Callable[[], int],
    ) -> None:
        super().__init__(open_link)
        self._idle_time = plan.idle
        self._timeout = timeout
        self._make = make
        self._receiver = receiver
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
        self._place(query)

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
        if self._idle:
            since = now - self._idle_time
            while self._idle:
                connection, began = next(iter(self._idle.items()))
                if began > since:
                    break
                self.end(connection, SPENT if connection.is_spent else IDLE)
        self._serve_backlog()

    def close(self) -> None:
        """Close all connections, and drop the queries."""
        for connection in list(self._open):
            for query in connection.rest():
                query.is_over = True
            self.end(connection, AT_END)

    def _place(self, query: Query) -> None:
        """Assign a query to a client, or let it wait."""
        free = self._free
        while free:
            client = free.popleft()
            connection = client.connection
            if connection is None:
                client.is_listed = False
                connection = self._open_for(client, query)
                if connection is None:
                    return
            elif not connection.has_room:
                client.is_listed = False
                continue
            connection.ask(query)
            if self._idle:
                self._idle.pop(connection, None)
            self.mark_dirty(connection)
            if connection.has_room:
                client.is_listed = True
                free.append(client)
            else:
                client.is_listed = False
            return
        self._backlog.append(query)

    def _open_for(self, client: Client, query: Query) -> Connection | None:
        """Open a connection; if this machine cannot, the query is not sent."""
        connection = self._make(self._clock())
        try:
            self.begin(connection)
        except OSError:
            self._list(client)
            self._finish(query)
            self._receiver.without_reply(query, self._refused)
            return None
        connection.client = client
        client.connection = connection
        return connection

    def _list(self, client: Client) -> None:
        if not client.is_listed and client.has_room:
            client.is_listed = True
            self._free.append(client)

    def _serve_backlog(self) -> None:
        backlog = self._backlog
        while backlog and self._free:
            query = backlog.popleft()
            if query.is_over:
                continue
            self._place(query)
            if backlog and backlog[-1] is query:  # no client had room
                backlog.rotate(1)
                break

    def set_up(self, connection: Connection) -> None:
        """Count a connection that is set up."""
        self.counts.open_after(self._clock() - connection.began)

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Pass results on."""
        now = connection.replied = self._clock()
        reply = self._receiver.reply
        for query, message, why in found:
            if query is None or query.is_over:
                self.counts.late += 1
            elif message is not None:
                query.is_over = True
                self.waits -= 1
                reply(query, message, now)
            elif why:
                self._finish(query)
                count(self.counts.without_answer, why)
                self._receiver.without_reply(query, LOST)
            else:
                self._again(query)

    def review(self, connection: Connection) -> None:
        """Close, replace or keep a connection after octets have arrived."""
        if not connection.session.takes:
            waiting = list(connection.waiting)
            connection.waiting.clear()
            for query in waiting:
                self._again(query)
        if connection.is_quiet:
            if not connection.session.takes:
                self.end(connection, connection.session.leaves)
                return
            if connection.is_spent:
                if self._idle_time == STAYS:
                    self.end(connection, SPENT)
                    return
                self._release(connection)
            if self._idle_time != STAYS and connection not in self._idle:
                self._idle[connection] = self._clock()
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
        rest = connection.rest()
        if connection.is_up:
            count(self.counts.ended, why)
            for query in rest:
                self._again(query)
            return
        count(self.counts.not_opened, why)
        for query in rest:
            if not query.is_over:
                self._finish(query)
                self._receiver.without_reply(query, LOST)

    def _again(self, query: Query) -> None:
        if query.is_over:
            return
        query.tries += 1
        query.connection = None
        if query.tries >= TRIES:
            self._finish(query)
            self._receiver.without_reply(query, LOST)
        else:
            self.counts.asked_again += 1
            self._place(query)

    def _time_out(self, query: Query) -> None:
        """Handle a query whose timeout is over."""
        self._finish(query)
        self._receiver.without_reply(query, LOST)
        connection = query.connection
        if connection is not None and connection in self._open:
            connection.forget(query)
            self.mark_dirty(connection)
            if connection.replied <= query.sent:
                self.end(connection, SILENT)
            else:
                self.review(connection)

    def _finish(self, query: Query) -> None:
        query.is_over = True
        self.waits -= 1
