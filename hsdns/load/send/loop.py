"""The loop of a process that sends: what is due, a wait, what has arrived, what has expired, a report.  Open loop.

Path: process.py -> Sender, pods.py or verify/follow.py -> here -> a Transport: udp.py, or connection.py (a pool).
Rule 1: a query that is due is sent in the next turn, regardless of earlier replies; none is skipped, and none waits for
        a reply.
Rule 2: a late query is sent late, and both times are recorded, so that reports separate the generator's lateness from
        latency.  A query counts as sent when its system call returns, so that the call's time is included; over
        connections, when all queries of its turn have been written as far as these accept them: waiting there for the
        set-up or for room belongs to the transport, and is part of its latency.
Rule 3: nothing here counts, and only the ID and flags of a reply are read: slow work is done elsewhere.  A reply is
        emitted once, with a number, before the outcomes that refer to it.  A compiled counter counts the outcomes; then
        they are emitted only if answers are judged.
Rule 4: with `most`, rules 1 and 2 do not hold: at most that many queries wait at once, and the schedule is postponed
        while it waits for room, so that the rate is not exceeded afterwards.

Over UDP its twin is native/src/load_sender.rs, which is used if it was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from hsdns.fastpath import LoadCounts
from hsdns.load.counters import ConnectionsReport, LookupsReport, encode
from hsdns.load.outcome import (
    ANSWERS,
    CONNECTIONS,
    COUNTS,
    LOOKUPS,
    OUTCOMES,
    RecentReplies,
    forget_frame,
    frame,
    pack_outcome,
    reply_frame,
)

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadCounts as Compiled
    from hsdns.load.send.connection import Connection

REPORT_EVERY: Final = 20_000_000  # nanoseconds
SPIN: Final = 60_000  # nanoseconds before a query is due from which it does not wait
LONGEST: Final = 50_000_000  # maximum nanoseconds of one wait
# Nanoseconds by which a schedule that waits for room may be late before it is postponed: so queries leave together.
CATCH_UP: Final = 10_000_000
# Nanoseconds after a query is due that such a schedule waits, for the same reason.
GATHER: Final = 1_000_000
HEADER_LEN: Final = 12

# Functions that receive what has arrived; None: the process must end.
Ready = Sequence[Callable[[], None]] | None


class Query(msgspec.Struct, eq=False):
    """A query: its octets without the ID, the number of its question, and when it was due and sent (nanoseconds).

    `key` is how its transport finds it, -1 before it is sent; `connection` is where it waits; `is_over` once it was
    answered or given up.
    """

    octets: bytes
    question: int
    planned: int
    sent: int
    tries: int = 0
    connection: Connection | None = None
    key: int = -1
    is_over: bool = False


# Takes a query, its reply (whose ID means nothing) and when it arrived; or no octets, and LOST or NOT_SENT.
Ended = Callable[[Query, bytes, int], None]


class Transport(Protocol):
    """Sends queries, and says how each ended; `turn` is how many it takes between two waits."""

    turn: int

    @property
    def waits(self) -> int:
        """The number of queries that wait for a reply."""

    def ask(self, query: Query) -> None:
        """Take a query."""

    def flush(self) -> None:
        """Send what was taken, and record when."""

    def expire(self, now: int) -> None:
        """Give up the queries that have waited too long."""

    def close(self) -> None:
        """End: no more replies are waited for."""


@dataclass
class Reporter:
    """Collects messages for the process that counts; `replies`: whether they are wanted; `kinds` as in plan.Plan."""

    emit: Callable[[bytes], None]
    replies: bool
    kinds: Sequence[int] = ()
    connections: ConnectionsReport = field(default_factory=ConnectionsReport)
    lookups: LookupsReport = field(default_factory=LookupsReport)
    _counts: Compiled | None = None
    # Packed one by one: packing all together would delay queries.
    _outcomes: bytearray = field(default_factory=bytearray)
    _known: RecentReplies[int] = field(default_factory=RecentReplies)
    _reply_count: int = 0
    _reported: int = 0

    def begin(self, begin: int) -> None:
        """Set the begin of the schedule, in nanoseconds of the monotonic clock."""
        self._reported = begin
        if self.kinds and LoadCounts is not None:
            self._counts = LoadCounts(self.kinds, begin)

    def ended(self, query: Query, message: bytes, received: int) -> None:
        """Add a query with its reply, or one without; see Ended."""
        question, planned, sent = query.question, query.planned, query.sent
        flags = message[2] << 8 | message[3] if message else 0
        number = 0
        if message and self.replies:
            content = message[2:]
            number = self._known.get(content) or self._new_reply(question, content)
        if self._counts is not None:
            self._counts.add(question, flags, planned, sent, received)
            if not number:
                return
        self._outcomes += pack_outcome(question, flags, number, planned, sent, received)

    def report_at(self, now: int) -> None:
        """Emit all messages if it is time."""
        if now - self._reported > REPORT_EVERY:
            self._reported = now
            self.report()

    def report(self) -> None:
        """Emit all messages."""
        if self._counts is not None and (counts := self._counts.take()):
            self.emit(frame(COUNTS, counts))
        if self._outcomes:
            self.emit(frame(OUTCOMES if self._counts is None else ANSWERS, self._outcomes))
            self._outcomes.clear()

    def finish(self) -> None:
        """Emit all messages, and at last what was counted."""
        self.report()
        if self.connections != ConnectionsReport():
            self.emit(frame(CONNECTIONS, encode(self.connections)))
        if self.lookups.whole.ends:
            self.emit(frame(LOOKUPS, encode(self.lookups)))

    def _new_reply(self, question: int, content: bytes) -> int:
        number = self._reply_count = self._reply_count + 1
        if dropped := self._known.add(content, number):
            self.report()
            self.emit(forget_frame(dropped))
        self.emit(reply_frame(number, question, content))
        return number


@dataclass(kw_only=True)
class Loop:
    """The loop; `wait` waits for at most the given nanoseconds."""

    clock: Callable[[], int]
    wait: Callable[[int], Ready]

    def send_due(self, now: int) -> int | None:
        """Send what is due; return when something is to be done next, None at the end."""
        raise NotImplementedError

    def expire(self, now: int) -> None:
        """Do what is due besides: `now` was read before what has arrived was received, so that this comes first."""

    def loop(self) -> None:
        """Go on until the end."""
        while (until := self.send_due(now := self.clock())) is not None:
            ready = self.wait(min(max(until - now, 0), LONGEST))
            if ready is None:
                return
            now = self.clock()
            for receive in ready:
                receive()
            self.expire(now)


@dataclass(kw_only=True)
class Scheduled(Loop):
    """A loop that sends over `transport` what is due at `times`, and reports what became of it."""

    reporter: Reporter
    times: Iterator[int]
    transport: Transport = field(init=False)
    _begin: int = 0
    _due: int | None = None

    def run(self, begin: int) -> None:
        """Send everything, and wait for the last replies; `begin` is the time at which the schedule begins."""
        self._begin, self._due = begin, next(self.times, None)
        self.reporter.begin(begin)
        self.loop()
        self.give_up()
        self.transport.close()
        self.reporter.finish()

    def give_up(self) -> None:
        """Count what has not ended."""

    def expire(self, now: int) -> None:
        """Give up queries, send what connections have room for, and report."""
        self.transport.expire(now)
        self.transport.flush()
        self.reporter.report_at(now)


@dataclass(kw_only=True)
class Sender(Scheduled):
    """Sends `queries` (without IDs), in an `order` of their numbers; `most` wait at once, 0: any number."""

    queries: Sequence[bytes]
    order: Iterator[int]
    most: int = 0

    def send_due(self, now: int) -> int | None:
        """Pass the queries that are due to the transport."""
        transport, begin, due = self.transport, self._begin, self._due
        if due is None:
            return now + LONGEST if transport.waits else None
        if begin + due > now:
            return begin + due + (GATHER if self.most else -SPIN)
        room = transport.turn
        if self.most:
            self._begin = begin = max(begin, now - due - CATCH_UP)
            room = min(room, self.most - transport.waits)
            if room <= 0:
                return now + LONGEST
        ask, queries = transport.ask, self.queries
        for _ in range(room):
            question = next(self.order)
            ask(Query(queries[question], question, begin + due, now))
            due = next(self.times, None)
            if due is None or begin + due > now:
                break
        self._due = due
        transport.flush()
        return now
