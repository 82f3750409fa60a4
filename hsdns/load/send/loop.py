"""The loop of a process that sends: what is due, a wait, what has arrived, what has expired, a report.  Open loop.

Path: process.py -> Sender, pods.py or verify/follow.py -> here -> a Transport: udp.py, or connection.py (a pool).
Rule 1: a query that is due is sent in the next turn, regardless of earlier replies; none is skipped, and none waits for
        a reply.
Rule 2: a late query is sent late, and both times are recorded, so that reports separate the generator's lateness from
        latency; catching up is paced (schedule.py).  A query counts as sent when its system call returns; over
        connections, when all queries of its turn have been written as far as these accept them: waiting there for the
        set-up or for room belongs to the transport, and is part of its latency.
Rule 3: nothing here counts, and only ID, flags and question of a reply are read: slow work is done elsewhere.
        A message with QR 0 or another question is no reply: the query waits on, as that of a resolver.  A reply is
        emitted once, with a number, before the outcomes that refer to it.  A compiled counter counts the outcomes; then
        they are emitted only if answers are judged.
Rule 4: with `most`, rules 1 and 2 do not hold: at most that many queries wait at once, and the schedule is postponed
        while it waits for room, so that the rate is not exceeded afterwards.

Over UDP its twin is native/src/load_sender.rs, which is used if it was compiled.
"""

from __future__ import annotations

from collections import Counter
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
    DROPPED,
    LATE,
    LOOKUPS,
    NO_REPLY,
    NOT_SENT,
    OTHER_QUESTION,
    OUTCOMES,
    UNSURE,
    UNSURE_AFTER,
    RecentReplies,
    forget_frame,
    frame,
    pack_counts,
    pack_outcome,
    reply_frame,
)
from hsdns.load.schedule import NEVER_LATE, SECOND, Pace
from hsdns.wire.name import after_name

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadCounts as Compiled
    from hsdns.load.send.connection import Connection

REPORT_EVERY: Final = 20_000_000  # nanoseconds
LONGEST: Final = 50_000_000  # maximum nanoseconds of one wait
# Nanoseconds after a query is due that a schedule that waits for room waits, so that queries leave together.
GATHER: Final = 1_000_000
HEADER_LEN: Final = 12
_QR: Final = 0x80  # in the third octet of a message

# Functions that receive what has arrived; None: the process must end.
Ready = Sequence[Callable[[], None]] | None


class Query(msgspec.Struct, eq=False):
    """A query: its octets without the ID, the number of its question, and when it was due and sent (nanoseconds).

    `after` is when the system call returned that sent it, 0 if that is the same.  `key` is how its transport finds it,
    -1 before it is sent; `connection` is where it waits; `is_over` once it was answered or given up.  `client` is the
    number of its client, where each has its own socket.
    """

    octets: bytes
    question: int
    planned: int
    sent: int
    after: int = 0
    tries: int = 0
    connection: Connection | None = None
    key: int = -1
    is_over: bool = False
    client: int = 0

    def misfit(self, reply: bytes) -> int | None:
        """Why a message with the ID of this query is no reply to it (OTHER_QUESTION, NO_REPLY); None if it is one."""
        if not reply[2] & _QR:
            return NO_REPLY
        asked, at = self.octets, HEADER_LEN - 2
        end = after_name(asked, at) + 4 if asked[at - 1] else len(asked)
        own, found = asked[at:end], reply[HEADER_LEN : end + 2]
        is_same = found == own or (
            found[-4:] == own[-4:] and found[:-4].lower() == own[:-4].lower()
        )
        return None if is_same and reply[4:6] == b"\0\1" else OTHER_QUESTION


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
    late_after: int = NEVER_LATE
    connections: ConnectionsReport = field(default_factory=ConnectionsReport)
    lookups: LookupsReport = field(default_factory=LookupsReport)
    dropped: Callable[[], int] = lambda: 0  # datagrams since the last call
    _counts: Compiled | None = None
    _noted: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    _begin: int = 0
    # Packed one by one: packing all together would delay queries.
    _outcomes: bytearray = field(default_factory=bytearray)
    _known: RecentReplies[int] = field(default_factory=RecentReplies)
    _reply_count: int = 0
    _reported: int = 0

    def begin(self, begin: int) -> None:
        """Set the begin of the schedule, in nanoseconds of the monotonic clock."""
        self._reported = self._begin = begin
        if self.kinds and LoadCounts is not None:
            self._counts = LoadCounts(self.kinds, begin)

    def note(self, what: int, value: int, at: int, number: int = 1) -> None:
        """Count what is no outcome, at a time: UNMATCHED and what follows it in outcome.py."""
        self._noted[what, max(0, at - self._begin) // SECOND, value] += number

    def ended(self, query: Query, message: bytes, received: int) -> None:
        """Add a query with its reply, or one without; see Ended."""
        question, planned, sent = query.question, query.planned, query.sent
        flags = message[2] << 8 | message[3] if message else 0
        if received != NOT_SENT:
            # Where the sender was held up, the query may have left at any time until then.
            after = query.after or sent
            flags |= LATE if after - planned > self.late_after else 0
            flags |= UNSURE if after - sent > UNSURE_AFTER else 0
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
            self._report_at(now)

    def _report_at(self, now: int) -> None:
        if number := self.dropped():
            self.note(DROPPED, 0, now, number)
        self.report()

    def report(self) -> None:
        """Emit all messages."""
        if self._counts is not None and (counts := self._counts.take()):
            self.emit(frame(COUNTS, counts))
        if self._noted:
            noted = ((*what, number) for what, number in self._noted.items())
            self.emit(frame(COUNTS, pack_counts(noted)))
            self._noted.clear()
        if self._outcomes:
            self.emit(frame(OUTCOMES if self._counts is None else ANSWERS, self._outcomes))
            self._outcomes.clear()

    def finish(self, now: int) -> None:
        """Emit all messages, and at last what was counted."""
        self._report_at(now)
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
    most: int = 0
    transport: Transport = field(init=False)
    _pace: Pace = field(init=False)
    _begin: int = 0

    def run(self, begin: int) -> None:
        """Send everything, and wait for the last replies; `begin` is the time at which the schedule begins."""
        late_after = self.reporter.late_after
        self._begin = begin
        self._pace = Pace(self.times, begin, late_after, is_postponed=bool(self.most))
        self.reporter.begin(begin)
        self.loop()
        self.give_up()
        self.transport.close()
        self.reporter.finish(self.clock())

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

    def send_due(self, now: int) -> int | None:
        """Pass the queries that are due to the transport."""
        transport, pace = self.transport, self._pace
        if pace.due is None:
            return now + LONGEST if transport.waits else None
        if pace.at > now:
            return pace.at + (GATHER if self.most else 0)
        pace.begin_turn(now)
        room = transport.turn
        if self.most:
            room = min(room, self.most - transport.waits)
            if room <= 0:
                return now + LONGEST
        ask, queries = transport.ask, self.queries
        for _ in range(room):
            question = next(self.order)
            ask(Query(queries[question], question, pace.due or 0, now))
            if not pace.advance() or pace.at > now:
                break
        transport.flush()
        return now
