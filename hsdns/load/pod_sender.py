"""Looks up names on schedule, like the resolvers of pods: open loop, with the models of resolver/ in real time.

Path: pod_process.py runs it in the process that sends -> here; pods.py chooses pods and names, resolver/ the queries of
a lookup -> stamped_udp.py, pod_tcp.py.
Rule 1: a lookup begins when it is due, regardless of earlier ones.  A model's clock advances by due times, times of
        arrival and ends of waits, not by when this process handles them; the difference is reported as lateness.
Rule 2: each query, including a retry, has a unique pair of socket and ID, so that it is known which one was answered.
        Its source port is not the one that a pod would use.
Rule 3: a question is reported when it is first sent; its group is the kind of name, or SEARCH.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from hsdns.load.lookups import ENDS, LOOKUPS, UNFINISHED, Lookup, end_of, kinds_of, pack_lookups
from hsdns.load.outcome import (
    LOST,
    NOT_SENT,
    OUTCOMES,
    QUESTION,
    forget_frame,
    frame,
    pack_outcomes,
    pack_question,
    reply_frame,
)
from hsdns.load.pods import SEARCH, Pods, Wanted
from hsdns.load.questions import Question
from hsdns.load.recent_replies import RecentReplies
from hsdns.load.schedule import SECOND
from hsdns.resolver.message import answer_of, wire_of
from hsdns.resolver.model import Answer, Arrival, Model, Packet
from hsdns.wire.decode import HEADER_LEN, BadReply
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

TYPES: Final = (RRType.A, RRType.AAAA)
IDS: Final = 65_536
MOST_LOOKUPS: Final = 16  # begun in a turn
REPORT_EVERY: Final = 20_000_000  # nanoseconds
LONGEST_WAIT: Final = 20_000_000  # maximum nanoseconds of one wait
DRAIN: Final = (
    7 * SECOND
)  # nanoseconds, in addition to the timeout of a query, until the last lookup must have ended
CLOSED: Final = Answer(is_closed=True)


class Wire(Protocol):
    """A UDP socket."""

    def send(self, octets: bytes) -> bool:
        """Send a datagram; return whether the system took it."""

    def receive(self) -> Sequence[tuple[bytes, int]]:
        """A limited number of datagrams that have arrived, with their times in nanoseconds of the monotonic clock."""


class Connection(Protocol):
    """A TCP connection; it opens without a call."""

    def send(self, octets: bytes) -> None:
        """Send a message."""

    def receive(self) -> tuple[Sequence[bytes], bool]:
        """The messages that have arrived, and whether the connection has ended."""

    def close(self) -> None:
        """Close it."""


Ready = Sequence[Wire | Connection] | None


class _Running:
    """A lookup in progress."""

    __slots__ = (
        "again", "began", "connections", "deadline", "is_over", "model", "number", "over_tcp", "planned", "queries",
        "seen", "waiting", "wanted", "wasted",
    )  # fmt: skip

    def __init__(self, wanted: Wanted, model: Model, planned: int, began: int) -> None:
        self.wanted = wanted
        self.model = model
        self.waiting = model.lookup(wanted.name, TYPES)
        self.planned = planned
        self.began = began
        self.deadline: float | None = None  # when it continues without an answer, in seconds
        self.is_over = False
        self.queries = self.wasted = self.again = self.over_tcp = 0
        self.seen: set[tuple[str, int]] = set()
        self.connections: dict[str, Connection] = {}


class _Sent:
    """A query that waits for its reply."""

    __slots__ = ("packet", "place", "planned", "question", "running", "sent")

    def __init__(self, running: _Running, packet: Packet, question: int, planned: int) -> None:
        self.running = running
        self.packet = packet
        self.question = question
        self.planned = planned
        self.sent = 0
        self.place = 0  # socket and ID; 0 over TCP


class PodSender:
    """Looks up `wanted` for `pods` at `times`; gives up unfinished lookups `timeout` and DRAIN after the last one.

    `wait` waits for at most the given nanoseconds and returns what is readable, or None if the sender must end.
    `connect` opens a TCP connection.  `emit` takes messages (outcome.py).  A query is lost `timeout` nanoseconds after
    it was sent.  `replies`: whether they are wanted.
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        pods: Pods,
        times: Iterator[int],
        wanted: Iterator[Wanted],
        *,
        timeout: int,
        clock: Callable[[], int],
        wait: Callable[[int], Ready],
        connect: Callable[[], Connection],
        emit: Callable[[bytes], None],
        replies: bool,
    ) -> None:
        self._wires = wires
        self._numbers = {id(wire): number for number, wire in enumerate(wires)}
        self._pods = pods
        self._times = times
        self._wanted = wanted
        self._timeout = timeout
        self._drain = timeout + DRAIN
        self._clock = clock
        self._wait = wait
        self._connect = connect
        self._emit = emit
        self._wants_replies = replies
        self._begin = 0
        self._timers: list[tuple[float, int, _Running]] = []  # seconds from the begin
        self._timer_count = 0
        self._running: set[_Running] = set()
        self._places: dict[int, _Sent] = {}  # by socket and ID
        self._next_place = 0
        self._order: deque[_Sent] = deque()  # in the order of sending
        self._streams: dict[int, tuple[Connection, dict[int, _Sent]]] = {}  # by id(), and ID
        self._unconnected: deque[tuple[_Sent, int]] = deque()
        self._questions: dict[tuple[str, int, str], int] = {}
        self._octets: dict[tuple[object, ...], bytes] = {}
        self._replies = RecentReplies[tuple[int, Answer | None]]()
        self._reply_count = 0
        self._told = bytearray()  # messages to emit before the outcomes
        self._outcomes: list[tuple[int, int, int, int, int, int]] = []
        self._lookups: list[Lookup] = []
        self._reported = 0

    def run(self, begin: int) -> None:
        """Run all lookups, and wait until they end; `begin` is the time at which the schedule begins."""
        self._begin = self._reported = begin
        due = next(self._times, None)
        last = begin
        while True:
            now = self._clock()
            for _ in range(MOST_LOOKUPS):
                if due is None or begin + due > now:
                    break
                last = begin + due
                self._start(last, now)
                due = next(self._times, None)
                now = self._clock()
            if due is None and (not self._running or now > last + self._drain):
                break
            ready = self._wait(self._idle_for(due, now))
            if ready is None:
                break
            now = (
                self._clock()
            )  # taken before reading: what has arrived by then precedes the timers
            for each in ready:
                self._receive(each)
            while self._unconnected:
                sent, at = self._unconnected.popleft()
                if not sent.running.is_over:
                    self._resume(sent.running, (sent.packet, CLOSED), at)
            self._expire(now)
            if now - self._reported > REPORT_EVERY:
                self._report(now)
        self._finish()

    def _idle_for(self, due: int | None, now: int) -> int:
        """Nanoseconds until the next action."""
        until = now + LONGEST_WAIT
        if due is not None:
            until = min(until, self._begin + due)
        if self._timers:
            until = min(until, self._begin + round(self._timers[0][0] * SECOND))
        return max(0, until - now)

    def _start(self, planned: int, now: int) -> None:
        wanted = next(self._wanted)
        running = _Running(wanted, self._pods.take(wanted.pod), planned, now)
        self._running.add(running)
        self._resume(running, None, planned)

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
        if running.is_over:
            return
        running.deadline = deadline
        if deadline is not None:  # None: glibc waits for TCP without a limit
            self._timer_count += 1
            heappush(self._timers, (deadline, self._timer_count, running))

    def _expire(self, now: int) -> None:
        """Continue lookups whose wait is over, and count lost queries."""
        timers, order, begin = self._timers, self._order, self._begin
        while timers and (at := begin + round(timers[0][0] * SECOND)) <= now:
            deadline, _, running = heappop(timers)
            if not running.is_over and running.deadline == deadline:
                running.deadline = None
                self._resume(running, None, at, deadline)
        before = now - self._timeout
        while order and order[0].sent <= before:
            self._forget(order.popleft())

    def _forget(self, sent: _Sent) -> None:
        """Count a query as lost, unless it was answered."""
        if self._places.get(sent.place) is sent:
            del self._places[sent.place]
            self._without_reply(sent, LOST)

    def _send(self, running: _Running, at: int) -> None:
        """Send the packets in a model's outbox, which were due at a time."""
        outbox = running.model.outbox
        if not outbox:
            return
        for packet in outbox:
            running.queries += 1
            is_meant = packet.name == running.wanted.meant
            running.wasted += not is_meant
            key = (packet.name, packet.rrtype)
            if packet.transport == "tcp":
                running.over_tcp += 1
            else:
                running.again += key in running.seen
                running.seen.add(key)
            question = self._question(packet, running.wanted.kind if is_meant else SEARCH)
            sent = _Sent(running, packet, question, at)
            if packet.transport == "tcp":
                self._send_stream(sent)
            else:
                self._send_datagram(sent)
        outbox.clear()

    def _send_datagram(self, sent: _Sent) -> None:
        wires = self._wires
        number = self._next_place
        self._next_place = (number + 1) % (len(wires) * IDS)
        socket, query_id = number % len(wires), number // len(wires)
        sent.place = socket << 16 | query_id
        before = self._places.get(sent.place)
        if before is not None:
            self._forget(before)
        self._places[sent.place] = sent
        octets = query_id.to_bytes(2, "big") + self._message(sent.packet)
        sent.sent = self._clock()
        if wires[socket].send(octets):
            self._order.append(sent)
        else:
            del self._places[sent.place]
            self._without_reply(sent, NOT_SENT)

    def _send_stream(self, sent: _Sent) -> None:
        at = sent.sent = self._clock()
        connections, port = sent.running.connections, sent.packet.port
        if port not in connections:
            try:
                connections[port] = self._connect()
            except OSError:  # this machine has no socket left
                self._without_reply(sent, NOT_SENT)
                self._unconnected.append((sent, at))
                return
            self._streams[id(connections[port])] = connections[port], {}
        stream = self._streams.get(id(connections[port]))
        if stream is None:  # it has closed
            self._without_reply(sent, LOST)
            return
        _, waiting = stream
        query_id = len(waiting) + 1
        waiting[query_id] = sent
        connections[port].send(query_id.to_bytes(2, "big") + self._message(sent.packet))

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
            self._told += frame(QUESTION, pack_question(number, question))
        return number

    def _receive(self, ready: Wire | Connection) -> None:
        number = self._numbers.get(id(ready))
        if number is None:
            self._receive_stream(id(ready))
            return
        for octets, received in self._wires[number].receive():
            if len(octets) < HEADER_LEN:
                continue
            sent = self._places.pop(number << 16 | octets[0] << 8 | octets[1], None)
            if sent is not None:
                self._take(sent, octets, max(received, sent.sent))

    def _receive_stream(self, key: int) -> None:
        stream = self._streams.get(key)
        if stream is None:  # it has closed
            return
        connection, waiting = stream
        messages, is_closed = connection.receive()
        now = self._clock()
        for octets in messages:
            sent = (
                waiting.pop(octets[0] << 8 | octets[1], None) if len(octets) >= HEADER_LEN else None
            )
            if sent is not None:
                self._take(sent, octets, now)
        if is_closed and self._streams.pop(key, None) is not None:
            connection.close()
            for sent in waiting.values():
                self._without_reply(sent, LOST)
            for sent in waiting.values():
                if not sent.running.is_over:
                    self._resume(sent.running, (sent.packet, CLOSED), now)

    def _take(self, sent: _Sent, octets: bytes, received: int) -> None:
        """Continue the lookup with a reply."""
        number, answer = self._read(sent, octets)
        flags = octets[2] << 8 | octets[3]
        self._outcomes.append((sent.question, flags, number, sent.planned, sent.sent, received))
        if answer is not None and not sent.running.is_over:
            self._resume(sent.running, (sent.packet, answer), received)

    def _read(self, sent: _Sent, octets: bytes) -> tuple[int, Answer | None]:
        """The number and content of a reply; new ones are emitted if they are wanted."""
        content = octets[2:]
        number, answer = self._replies.get(content) or (0, None)
        if answer is not None:
            return number, answer
        try:
            answer = answer_of(octets, sent.packet)
        except BadReply:
            answer = None  # but it may be a reply to another query
        if number:
            self._replies.replace(content, (number, answer))
            return number, answer
        number = self._reply_count = self._reply_count + 1
        dropped = self._replies.add(content, (number, answer))
        if self._wants_replies:
            if dropped:
                self._report(self._reported)
                self._told += forget_frame([number for number, _ in dropped])
            self._told += reply_frame(number, sent.question, content)
        return number, answer

    def _end(self, running: _Running, end: str, at: int) -> None:
        running.is_over = True
        self._running.discard(running)
        for connection in running.connections.values():
            _, waiting = self._streams.pop(id(connection), (connection, {}))
            for sent in waiting.values():
                self._without_reply(sent, LOST)
            connection.close()
        wanted = running.wanted
        self._pods.release(wanted.pod, running.model)
        self._lookups.append(
            Lookup(
                *kinds_of(running.model.name, wanted),
                ENDS.index(end),
                running.queries,
                running.wasted,
                running.again,
                running.over_tcp,
                running.planned,
                running.began,
                at,
            )
        )

    def _finish(self) -> None:
        """Give up lookups in progress, and emit the remaining messages."""
        now = self._clock()
        for running in sorted(self._running, key=lambda each: each.planned):
            if (
                running.planned + self._drain <= now
            ):  # those of a run that ended early had too little time
                self._end(running, UNFINISHED, now)
        for sent in self._order:
            if sent.sent + self._timeout <= now:
                self._forget(sent)
        self._report(now)

    def _without_reply(self, sent: _Sent, why: int) -> None:
        self._outcomes.append((sent.question, 0, 0, sent.planned, sent.sent, why))

    def _report(self, now: int) -> None:
        if self._outcomes:
            self._told += frame(OUTCOMES, pack_outcomes(self._outcomes))
            self._outcomes.clear()
        if self._lookups:
            self._told += frame(LOOKUPS, pack_lookups(self._lookups))
            self._lookups.clear()
        if self._told:
            self._emit(bytes(self._told))
            self._told.clear()
        self._reported = now
