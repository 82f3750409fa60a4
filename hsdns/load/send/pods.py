"""Looks up names on schedule, like the resolvers of pods: open loop, with the models of resolver/ in real time.

Path: process.py -> here; load/pods.py chooses pods and names, resolver/ the queries of a lookup -> udp.py,
      connection.py.
Rule 1: a lookup begins when it is due, regardless of earlier ones.  A model's clock advances by due times, times of
        arrival and ends of waits, not by when this process handles them; the difference is reported as lateness.
Rule 2: each query, including a retry, has a unique pair of socket and ID, so that it is known which one was answered.
        Its source port is not the one that a pod would use.
Rule 3: a question is reported when it is first sent; its group is the kind of name, or SEARCH.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import msgspec

from hsdns.load.counters import FAILED, FOUND, NONE, UNFINISHED, Lookup
from hsdns.load.outcome import LOST, NOT_SENT, QUESTION, RecentReplies, frame, pack_question
from hsdns.load.pods import SEARCH, PodLookup, Pods
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.send.connection import Connection, Connections, FramedSession, Link, QueryResult
from hsdns.load.send.loop import Query, Scheduled
from hsdns.resolver import cares, dnspython, glibc, go, hickory, jndi, musl, nginx
from hsdns.resolver.model import (
    CLOSED,
    Answer,
    Arrival,
    Model,
    Packet,
    Result,
    Waiting,
    answer_of,
    wire_of,
)
from hsdns.wire.decode import BadReply
from hsdns.wire.name import Name

MOST_LOOKUPS: Final = 16  # begun in a turn
LONGEST_WAIT: Final = 20_000_000  # maximum nanoseconds of one wait
# Nanoseconds, in addition to the timeout of a query, until the last lookup must have ended.
DRAIN: Final = 7 * SECOND
_NO_NAME: Final = frozenset(
    (
        glibc.NONAME, glibc.NODATA, musl.NONAME, musl.NODATA, go.NO_HOST, cares.NODATA, cares.NOT_FOUND, "ENOTFOUND",
        "ENODATA", dnspython.NONAME, dnspython.NODATA, jndi.NODATA, jndi.NOT_FOUND, nginx.NOT_FOUND,
        hickory.NO_RECORDS, musl.NO_ANSWER,
    )
)  # fmt: skip


def end_of(result: Result) -> str:
    """The end of a lookup with a result."""
    if result.addresses:
        return FOUND
    return NONE if result.error in _NO_NAME else FAILED


class _Running(msgspec.Struct, eq=False):
    """A lookup in progress."""

    wanted: PodLookup
    model: Model
    waiting: Waiting
    figures: Lookup
    deadline: float | None = None  # when it continues without an answer, in seconds
    seen: set[tuple[str, int]] = set()
    connections: dict[str, Connection] = {}


class PodQuery(Query, kw_only=True):
    """A query of a lookup."""

    running: _Running
    packet: Packet


class _LookupConnections(Connections):
    """The TCP connections of lookups, after truncated replies."""

    def __init__(self, open_link: Callable[[Connection], Link], sender: PodSender) -> None:
        super().__init__(open_link)
        self._sender = sender

    def ask(self, query: PodQuery) -> None:
        """Send a query; raise OSError if this machine has no socket left."""
        connections, port = query.running.connections, query.packet.port
        connection = connections.get(port)
        if connection is None:
            connection = Connection(FramedSession())
            self.begin(connection)
            connections[port] = connection
        if connection in self._open:
            connection.ask(query)
            self.mark_dirty(connection)
        else:
            self._sender.ended(query, b"", LOST)

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Pass replies on."""
        for query, message, _ in found:
            if query is not None and message is not None:
                self._sender.ended(query, message, self._sender.clock())

    def end(self, connection: Connection, why: str = "") -> None:
        """Close a connection, and continue its lookup; calling it again has no effect."""
        if connection in self._open:
            self.close_link(connection)
            self._sender.disconnected(connection.rest())


@dataclass(kw_only=True)
class PodSender(Scheduled):
    """Looks up `wanted` for `pods` at `times`; gives up unfinished lookups `timeout` and DRAIN after the last one.

    `open_link` opens the socket of a connection, `transport` sends datagrams, and says to ended() how each ended.
    A query is lost `timeout` nanoseconds after it was sent.
    """

    pods: Pods
    wanted: Iterator[PodLookup]
    open_link: Callable[[Connection], Link]
    timeout: int
    _last: int = 0  # when the last lookup so far was due
    # Seconds from the begin, and a number so that no lookups are compared.
    _timers: list[tuple[float, int, _Running]] = field(default_factory=list)
    _timer_count: int = 0
    _running: set[_Running] = field(default_factory=set)
    _unconnected: deque[PodQuery] = field(default_factory=deque)
    _questions: dict[tuple[str, int, str], int] = field(default_factory=dict)
    _octets: dict[tuple[object, ...], bytes] = field(default_factory=dict)
    _answers: RecentReplies[Answer] = field(default_factory=RecentReplies)

    def __post_init__(self) -> None:
        self.streams = _LookupConnections(self.open_link, self)
        self._drain = self.timeout + DRAIN

    def give_up(self) -> None:
        """Count the lookups that have not ended, but not those of a run that ended early: they had too little time."""
        now = self.clock()
        for running in sorted(self._running, key=lambda each: each.figures.planned):
            if running.figures.planned + self._drain <= now:
                self._end(running, UNFINISHED, now)

    def send_due(self, now: int) -> int | None:
        """Begin the lookups that are due; return when there is something to do."""
        begin, pace = self._begin, self._pace
        if pace.due is not None and pace.at <= now:
            pace.begin_turn(now)
        for _ in range(MOST_LOOKUPS):
            if pace.due is None or pace.at > now:
                break
            planned = self._last = pace.due
            wanted = next(self.wanted)
            model = self.pods.take(wanted.pod)
            figures = Lookup(model.name, wanted.form, planned=planned, began=now)
            running = _Running(wanted, model, model.lookup(wanted.name, wanted.types), figures)
            self._running.add(running)
            self._resume(running, None, planned)
            pace.advance()
            now = self.clock()
        if pace.due is None and (not self._running or now > self._last + self._drain):
            return None
        until = now + LONGEST_WAIT
        if pace.due is not None:
            until = min(until, pace.at)
        if self._timers:
            until = min(until, begin + round(self._timers[0][0] * SECOND))
        return until

    def _resume(
        self, running: _Running, arrival: Arrival | None, at: int, seconds: float | None = None
    ) -> None:
        """Continue a lookup with what arrived at a time, and send its next queries.

        `seconds` is that exact time on the model's clock, if the lookup was waiting for it.
        """
        model = running.model
        model.now = (at - self._begin) / SECOND if seconds is None else seconds
        try:
            deadline = running.waiting.send(arrival)
        except StopIteration as end:
            self._send(running, at)
            self._end(running, end_of(end.value), at)
            return
        self._send(running, at)
        if running in self._running:
            running.deadline = deadline
            if deadline is not None:  # None: glibc waits for TCP without a limit
                self._timer_count += 1
                heappush(self._timers, (deadline, self._timer_count, running))

    def expire(self, now: int) -> None:
        """Continue lookups whose wait is over or that got no connection, and count lost queries."""
        while self._unconnected:
            query = self._unconnected.popleft()
            self._resume_with(query, CLOSED, query.sent)
        timers, begin = self._timers, self._begin
        while timers and (at := begin + round(timers[0][0] * SECOND)) <= now:
            deadline, _, running = heappop(timers)
            if running in self._running and running.deadline == deadline:
                running.deadline = None
                self._resume(running, None, at, deadline)
        self.streams.flush()
        super().expire(now)

    def _send(self, running: _Running, at: int) -> None:
        """Send the packets in a model's outbox, which were due at a time."""
        packets, running.model.outbox[:] = list(running.model.outbox), []
        figures = running.figures
        for packet in packets:
            is_meant = packet.name == running.wanted.meant
            is_stream = packet.transport == "tcp"
            key = (packet.name, packet.rrtype)
            figures.queries += 1
            figures.wasted += not is_meant
            figures.over_tcp += is_stream
            figures.again += not is_stream and key in running.seen
            if not is_stream:
                running.seen.add(key)
            question = self._question(packet, running.wanted.kind if is_meant else SEARCH)
            octets = self._message(packet)
            query = PodQuery(octets, question, at, self.clock(), running=running, packet=packet)
            if not is_stream:
                self.transport.ask(query)
                self.transport.flush()
                continue
            try:
                self.streams.ask(query)
            except OSError:
                self.ended(query, b"", NOT_SENT)
                self._unconnected.append(query)
            self.streams.flush()

    def _message(self, packet: Packet) -> bytes:
        """The octets of a query without its ID."""
        key = packet[5:]
        octets = self._octets.get(key)
        if octets is None:
            octets = self._octets[key] = wire_of(packet, 0)[2:]
        return octets

    def _question(self, packet: Packet, group: str) -> int:
        """The number of a question; new ones are emitted."""
        key = (packet.name, packet.rrtype, group)
        number = self._questions.get(key)
        if number is None:
            number = self._questions[key] = len(self._questions)
            question = Question(Name.from_text(packet.name), packet.rrtype, group)
            self.reporter.emit(frame(QUESTION, pack_question(number, question)))
        return number

    def disconnected(self, rest: list[Query]) -> None:
        """Continue the lookup of a connection that has ended; nobody answers the rest of its queries."""
        now = self.clock()
        for query in rest:
            self.ended(query, b"", LOST)
        for query in rest:
            self._resume_with(query, CLOSED, now)

    def ended(self, query: Query, message: bytes, received: int) -> None:
        """Continue the lookup with a reply; without one, it waits as long as its resolver does."""
        self.reporter.ended(query, message, received)
        if not message:
            return
        try:
            answer = self._answer(query, message)
        except BadReply:
            return  # it may be a reply to another query
        self._resume_with(query, answer, received)

    def _resume_with(self, query: Query, answer: Answer, at: int) -> None:
        assert isinstance(query, PodQuery), "no other is sent"
        if query.running in self._running:
            self._resume(query.running, (query.packet, answer), at)

    def _answer(self, query: Query, octets: bytes) -> Answer:
        """The content of a reply; raise BadReply."""
        assert isinstance(query, PodQuery), "no other is sent"
        found = self._answers.get(octets[2:])
        if found is None:
            found = answer_of(octets, query.packet)
            self._answers.add(octets[2:], found)
        return found

    def _end(self, running: _Running, end: str, at: int) -> None:
        self._running.discard(running)
        for connection in running.connections.values():
            self.streams.end(connection)
        self.pods.release(running.wanted.pod, running.model)
        running.figures.end, running.figures.ended = end, at
        self.reporter.lookups.add(running.figures)
