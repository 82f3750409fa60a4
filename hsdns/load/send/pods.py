"""Looks up names on schedule, like the resolvers of pods: open loop, with the models of resolver/ in real time.

Path: process.py -> here; load/pods.py chooses pods and names, resolver/ the queries of a lookup, and of the forwarder
      that it goes through -> udp.py, connection.py.
Rule 1: a lookup begins when it is due, regardless of earlier ones.  A model's clock advances by due times, times of
        arrival and ends of waits, not by when this process handles them; the difference is reported as lateness.
Rule 2: each query, including a retry, has a unique pair of socket and ID, so that it is known which one was answered.
        Its source port is not the one that a pod would use.
Rule 3: a question is reported when it is first sent; its group is the kind of name, or SEARCH.
Rule 4: a forwarder's connections stay open between lookups.  The nameserver of its node, which is not under test,
        answers NXDOMAIN.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
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
from hsdns.resolver.forwarders.forwarder import Forwarder
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
from hsdns.wire.iana import Rcode
from hsdns.wire.name import Name

MOST_LOOKUPS: Final = 16  # begun in a turn
LONGEST_WAIT: Final = 20_000_000  # maximum nanoseconds of one wait
NOT_THERE: Final = Answer(Rcode.NXDOMAIN)
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


class _Asker(msgspec.Struct, eq=False, kw_only=True):
    """What sends queries: a lookup, or a forwarder."""

    deadline: float | None = None  # when it continues without an answer, in seconds
    connections: dict[str, Connection] = {}


class _Running(_Asker):
    """A lookup in progress; `number` tells it apart."""

    number: int
    wanted: PodLookup
    model: Model
    waiting: Waiting
    figures: Lookup
    seen: set[tuple[str, int]] = set()


class _Between(_Asker):
    """A forwarder; `is_busy` while it goes on."""

    forwarder: Forwarder
    is_busy: bool = False


class PodQuery(Query, kw_only=True):
    """A query of a lookup, or of a forwarder."""

    asker: _Asker
    packet: Packet


class _LookupConnections(Connections):
    """The TCP connections of lookups, after truncated replies, and of forwarders."""

    def __init__(self, open_link: Callable[[Connection], Link], sender: PodSender) -> None:
        super().__init__(open_link)
        self._sender = sender

    def ask(self, query: PodQuery) -> None:
        """Send a query; raise OSError if this machine has no socket left."""
        connections, port = query.asker.connections, query.packet.port
        connection = connections.get(port)
        if connection is None:
            connection = Connection(FramedSession())
            self.begin(connection)
            connections[port] = connection
        if connection in self._open:
            connection.ask(query)
            self.mark_dirty(connection)
        elif isinstance(query.asker, _Running):
            self._sender.ended(query, b"", LOST)
        else:  # it hears so when it sends
            self._sender.unconnected.append(query)

    def deliver(self, connection: Connection, found: list[QueryResult]) -> None:
        """Pass replies on."""
        for query, message, _ in found:
            if query is not None and message is not None:
                self._sender.ended(query, message, self._sender.clock())

    def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            self.end(connection)

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
    _timers: list[tuple[float, bool, int, _Asker]] = field(default_factory=list)
    _timer_count: int = 0
    _running: dict[int, _Running] = field(default_factory=dict)
    _lookups: int = 0
    _queues: defaultdict[int, deque[tuple[PodLookup, Lookup]]] = field(
        default_factory=lambda: defaultdict(deque)
    )  # of pods whose threads are all in use
    _between: dict[int, _Between] = field(default_factory=dict)  # by the identity of its forwarder
    _groups: dict[str, str] = field(default_factory=dict)  # of names that programs want of them
    unconnected: deque[PodQuery] = field(default_factory=deque)
    _questions: dict[tuple[str, int, str], int] = field(default_factory=dict)
    _octets: dict[tuple[object, ...], bytes] = field(default_factory=dict)
    _answers: RecentReplies[Answer] = field(default_factory=RecentReplies)

    def __post_init__(self) -> None:
        self.streams = _LookupConnections(self.open_link, self)
        self._drain = self.timeout + DRAIN

    def give_up(self) -> None:
        """Count the lookups that have not ended, but not those of a run that ended early: they had too little time."""
        now = self.clock()
        waiting = [figures for queue in self._queues.values() for _, figures in queue]
        found = [*(each.figures for each in self._running.values()), *waiting]
        for figures in sorted(found, key=lambda each: each.planned):
            if figures.planned + self._drain <= now:
                self._report(figures, UNFINISHED, now)
        self._running.clear()
        for between in self._between.values():
            between.is_busy = True  # and sends no more
        self.streams.close()

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
            name = self.pods.resolvers[wanted.pod]
            self._start(wanted, Lookup(name, wanted.form, planned=planned, began=now), planned)
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

    def _start(self, wanted: PodLookup, figures: Lookup, at: int) -> None:
        """Begin a lookup, or let it wait for a thread of its pod."""
        model = self.pods.take(wanted.pod)
        if model is None:
            self._queues[wanted.pod].append((wanted, figures))
            return
        self._lookups = number = self._lookups + 1
        waiting = model.lookup(wanted.name, wanted.types)
        running = _Running(number=number, wanted=wanted, model=model, waiting=waiting, figures=figures)  # fmt: skip
        self._running[number] = running
        self._resume(running, None, at)

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
            del self._running[running.number]
            self._send(running, at)
            self._end(running, end_of(end.value), at)
            return
        self._wake_at(running, deadline)
        self._send(running, at)

    def _wake_at(self, asker: _Asker, deadline: float | None) -> None:
        asker.deadline = deadline
        if deadline is not None:  # None: glibc waits for TCP without a limit
            self._timer_count += 1
            is_later = isinstance(asker, _Between)  # than a lookup whose wait is over, too
            heappush(self._timers, (deadline, is_later, self._timer_count, asker))

    def _pass_on(
        self, of: _Between, at: int, arrival: Arrival | None = None, seconds: float | None = None
    ) -> None:
        """Continue a forwarder with what arrived, send its queries, and give its replies to lookups; see _resume()."""
        forwarder = of.forwarder
        now = (at - self._begin) / SECOND if seconds is None else seconds
        forwarder.now = max(now, forwarder.now)
        if arrival is not None:
            forwarder.take(arrival)
        if of.is_busy:
            return
        of.is_busy = True
        while True:
            forwarder.wake()
            packets, forwarder.outbox[:] = list(forwarder.outbox), []
            for packet in packets:
                if packet.server:
                    forwarder.take((packet, NOT_THERE))
                else:
                    self._ask(of, packet, self._groups.get(packet.name, SEARCH), at)
            if forwarder.replies:
                query, answer = forwarder.replies.popleft()
                port, _, number = query.port.partition("/")
                running = self._running.get(int(number))
                if running is not None:
                    self._resume(running, (query._replace(port=port), answer), at, seconds)
            elif not forwarder.outbox:
                break
        of.is_busy = False
        due = None if forwarder.due == inf else forwarder.due
        if due != of.deadline:
            self._wake_at(of, due)

    def expire(self, now: int) -> None:
        """Continue lookups whose wait is over or that got no connection, and count lost queries."""
        while self.unconnected:
            query = self.unconnected.popleft()
            self._resume_with(query, CLOSED, query.sent)
        timers, begin = self._timers, self._begin
        while timers and (at := begin + round(timers[0][0] * SECOND)) <= now:
            deadline, *_, asker = heappop(timers)
            if asker.deadline == deadline:
                asker.deadline = None
                if isinstance(asker, _Between):
                    self._pass_on(asker, at, seconds=deadline)
                elif isinstance(asker, _Running):
                    self._resume(asker, None, at, deadline)
        self.streams.flush()
        super().expire(now)

    def _send(self, running: _Running, at: int) -> None:
        """Send the packets in a model's outbox, which were due at a time."""
        packets, running.model.outbox[:] = list(running.model.outbox), []
        figures, between = running.figures, self._between_of(running.wanted.pod)
        for packet in packets:
            is_meant = packet.name == running.wanted.meant
            group = running.wanted.kind if is_meant else SEARCH
            is_stream = packet.transport == "tcp"
            key = (packet.name, packet.rrtype)
            figures.queries += 1
            figures.wasted += not is_meant
            figures.over_tcp += is_stream
            figures.again += not is_stream and key in running.seen
            if not is_stream:
                running.seen.add(key)
            if between is None:
                self._ask(running, packet, group, at)
                continue
            if is_meant:
                self._groups[packet.name] = group
            forwarder = between.forwarder
            answered = len(forwarder.replies)
            forwarder.now = max((at - self._begin) / SECOND, forwarder.now)
            forwarder.hear(packet._replace(port=f"{packet.port}/{running.number}"))
            figures.kept += len(forwarder.replies) - answered
        if between is not None:
            self._pass_on(between, at)

    def _between_of(self, pod: int) -> _Between | None:
        """What the queries of a pod go through."""
        forwarder = self.pods.forwarder(pod)
        if forwarder is None:
            return None
        return self._between.setdefault(id(forwarder), _Between(forwarder=forwarder))

    def _ask(self, asker: _Asker, packet: Packet, group: str, at: int) -> None:
        """Send a packet to the server."""
        octets, question = self._message(packet), self._question(packet, group)
        query = PodQuery(octets, question, at, self.clock(), asker=asker, packet=packet)
        if packet.transport != "tcp":
            self.transport.ask(query)
            self.transport.flush()
            return
        try:
            self.streams.ask(query)
        except OSError:
            self.ended(query, b"", NOT_SENT)
            self.unconnected.append(query)
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
        asker, arrival = query.asker, (query.packet, answer)
        if isinstance(asker, _Between):
            self._pass_on(asker, at, arrival)
        elif isinstance(asker, _Running) and asker.number in self._running:
            self._resume(asker, arrival, at)

    def _answer(self, query: Query, octets: bytes) -> Answer:
        """The content of a reply; raise BadReply."""
        assert isinstance(query, PodQuery), "no other is sent"
        found = self._answers.get(octets[2:])
        if found is None:
            found = answer_of(octets, query.packet)
            self._answers.add(octets[2:], found)
        return found

    def _end(self, running: _Running, end: str, at: int) -> None:
        running.deadline, pod = None, running.wanted.pod
        for connection in running.connections.values():
            self.streams.end(connection)
        self.pods.release(pod, running.model)
        self._report(running.figures, end, at)
        if queue := self._queues.get(pod):
            self._start(*queue.popleft(), at)

    def _report(self, figures: Lookup, end: str, at: int) -> None:
        figures.end, figures.ended = end, at
        self.reporter.lookups.add(figures)
