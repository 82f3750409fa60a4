"""Sends queries over connections when they are due and records their outcomes: open loop, like sender.py over UDP.

Path: stream_process.py runs it in a separate process -> here -> pool.py; Telling makes the messages.
Rule 1: a query that is due is passed to the connections in the next turn, regardless of earlier replies.
Rule 2: a query counts as sent when all queries of its turn have been passed to the connections and written as far as
        these accept them.  Waiting there for the set-up or for room belongs to the transport, and is part of its
        latency.
Rule 3: a late sender passes several queries to each connection in a turn, so that one write and one read carry many of
        them; a sender that is on time sends each separately.

Messages for the process that counts: outcomes of queries over connections, and facts of connections:
Rule 1: a reply is sent once, with a number, before the outcomes that refer to it.
Rule 2: a compiled counter counts the outcomes; then they are sent only if answers are judged.

Retries over TCP after truncated answers over UDP, as a client does (RFC 7766 section 5):
Rule 1: the sender does not see the retry: the reply over TCP has the ID of its query.  So the latency runs from when
        the query was due, and includes the truncated answer and the connection.
Rule 2: a query without a reply over TCP either is lost after its timeout, like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hsdns.fastpath import LoadCounts
from hsdns.load.outcome import (
    ANSWERS,
    CONNECTIONS,
    COUNTS,
    FELL,
    OUTCOMES,
    Fact,
    RecentReplies,
    forget_frame,
    frame,
    pack_facts,
    pack_outcomes,
    reply_frame,
)
from hsdns.load.send.connection import Asked
from hsdns.load.send.pool import Hears, Pool
from hsdns.load.send.sender import HEADER_LEN, Wire

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadCounts as Compiled

REPORT_EVERY: Final = 20_000_000  # nanoseconds


class Telling:
    """Collects messages for `emit`; `replies`: whether they are wanted; `kinds` as in plan.Plan."""

    def __init__(
        self, emit: Callable[[bytes], None], *, replies: bool, kinds: Sequence[int] = ()
    ) -> None:
        self._emit = emit
        self._wants_replies = replies
        self._kinds = kinds
        self._counts: Compiled | None = None
        self._outcomes: list[tuple[int, int, int, int, int, int]] = []
        self._facts: list[Fact] = []
        self._replies = RecentReplies[int]()
        self._count = 0
        self._told = 0

    def begin(self, begin: int) -> None:
        """Set the begin of the schedule, in nanoseconds of the monotonic clock."""
        if self._kinds and LoadCounts is not None:
            self._counts = LoadCounts(self._kinds, begin)

    def fact(self, fact: Fact) -> None:
        """Add a fact."""
        self._facts.append(fact)

    def reply(self, asked: Asked, message: bytes, now: int) -> None:
        """Add a reply; its ID is ignored."""
        flags = message[2] << 8 | message[3]
        if self._counts is not None:
            self._counts.add(asked.question, flags, asked.planned, asked.sent, now)
            if not self._wants_replies:
                return
        number = self._number(asked.question, message[2:]) if self._wants_replies else 0
        self._outcomes.append((asked.question, flags, number, asked.planned, asked.sent, now))

    def without_reply(self, asked: Asked, why: int) -> None:
        """Add a query without a reply; `why` is LOST or NOT_SENT."""
        if self._counts is not None:
            self._counts.add(asked.question, 0, asked.planned, asked.sent, why)
        else:
            self._outcomes.append((asked.question, 0, 0, asked.planned, asked.sent, why))

    def tell_at(self, now: int) -> None:
        """Emit all messages if it is time."""
        if now - self._told >= REPORT_EVERY:
            self._told = now
            self.tell()

    def tell(self) -> None:
        """Emit all messages."""
        if self._counts is not None and (counts := self._counts.take()):
            self._emit(frame(COUNTS, counts))
        if self._outcomes:
            kind = OUTCOMES if self._counts is None else ANSWERS
            self._emit(frame(kind, pack_outcomes(self._outcomes)))
            self._outcomes.clear()
        if self._facts:
            self._emit(frame(CONNECTIONS, pack_facts(self._facts)))
            self._facts.clear()

    def _number(self, question: int, content: bytes) -> int:
        number = self._replies.get(content)
        if number is None:
            self.tell()
            number = self._count = self._count + 1
            if dropped := self._replies.add(content, number):
                self._emit(forget_frame(dropped))
            self._emit(reply_frame(number, question, content))
        return number


MOST: Final = 128  # queries in a turn
SPIN: Final = 60_000  # nanoseconds before a query is due from which it does not wait
LONGEST: Final = 50_000_000  # maximum nanoseconds of one wait


class StreamSender:
    """Sends `queries` (without IDs) at `times`, in an `order` of their numbers.

    `wait` waits for at most the given nanoseconds, passes the pool the events of its connections, and returns False if
    the sender must end.
    """

    def __init__(
        self,
        pool: Pool,
        telling: Telling,
        queries: Sequence[bytes],
        times: Iterator[int],
        order: Iterator[int],
        *,
        clock: Callable[[], int],
        wait: Callable[[int], bool],
    ) -> None:
        self._pool = pool
        self._telling = telling
        self._queries = queries
        self._times = times
        self._order = order
        self._clock = clock
        self._wait = wait

    def run(self, begin: int) -> None:
        """Send everything, and wait for the last replies; `begin` is the time at which the schedule begins."""
        pool, clock = self._pool, self._clock
        self._telling.begin(begin)
        due = next(self._times, None)
        while True:
            now = clock()
            if due is not None and begin + due <= now:
                due = self._send(begin, due, now)
                left = 0
            elif due is not None:
                left = begin + due - now - SPIN
            elif not pool.waits:
                break
            else:
                left = LONGEST
            if not self._wait(min(max(left, 0), LONGEST)):
                break
            now = clock()
            pool.tick(now)
            pool.flush()
            self._telling.tell_at(now)
        pool.close()
        self._telling.tell()

    def _send(self, begin: int, due: int, now: int) -> int | None:
        """Pass the queries that are due to the connections; return when the next one is due."""
        following: int | None = due
        ask, queries = self._pool.ask, self._queries
        turn: list[Asked] = []
        while following is not None and len(turn) < MOST:
            planned = begin + following
            if planned > now:
                break
            question = next(self._order)
            asked = Asked(queries[question], question, planned, now)
            ask(asked)
            turn.append(asked)
            following = next(self._times, None)
        self._pool.flush()
        sent = self._clock()
        for asked in turn:
            asked.sent = sent
        return following


IDS: Final = 65_536
TRUNCATED: Final = 2  # TC, in the third octet of a message


class Falls:
    """Connects `wires` and the pool that `make_pool` makes; it receives the pool's replies and facts."""

    def __init__(
        self,
        wires: Sequence[Wire],
        make_pool: Callable[[Hears], Pool],
        emit: Callable[[bytes], None],
        clock: Callable[[], int],
    ) -> None:
        self.wires = [FallingWire(wire, number, self) for number, wire in enumerate(wires)]
        self.pool = make_pool(self)
        self._clock = clock
        self._telling = Telling(emit, replies=False)
        self._ready: set[int] = set()

    def take(self, number: int, query: bytes) -> None:
        """Send a query of a wire again over TCP."""
        self._telling.fact(Fact(FELL))
        place = number * IDS + int.from_bytes(query[:2], "big")
        now = self._clock()
        self.pool.ask(Asked(query[2:], place, now, now))

    def turn(self) -> list[int]:
        """Do what is due; return the numbers of the wires that have a reply."""
        now = self._clock()
        self.pool.tick(now)
        self.pool.flush()
        self._telling.tell_at(now)
        found = sorted(self._ready)
        self._ready.clear()
        return found

    def close(self) -> None:
        """Close the connections."""
        self.pool.close()
        self._telling.tell()

    def fact(self, fact: Fact) -> None:
        """Record a fact about connections."""
        self._telling.fact(fact)

    def reply(self, asked: Asked, message: bytes, now: int) -> None:
        """Pass a reply to its wire."""
        number, query_id = divmod(asked.question, IDS)
        self.wires[number].replies.append(query_id.to_bytes(2, "big") + message[2:])
        self._ready.add(number)

    def without_reply(self, asked: Asked, why: int) -> None:
        """Leave the query to its timeout."""


class FallingWire:
    """A UDP socket whose truncated answers are replaced by those over TCP."""

    def __init__(self, wire: Wire, number: int, falls: Falls) -> None:
        self.replies: list[bytes] = []
        self._wire = wire
        self._number = number
        self._falls = falls
        self._queries: dict[int, bytes] = {}  # by ID, until there is a reply

    def send(self, queries: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""
        for query in queries:
            self._queries[query[0] << 8 | query[1]] = query
        return self._wire.send(queries)

    def receive(self) -> tuple[list[bytes], bool]:
        """Return the replies over TCP and those over UDP that are not truncated, and whether there may be more."""
        found, self.replies = self.replies, []
        datagrams, is_more = self._wire.receive()
        found += [each for each in datagrams if not self._falls_back(each)]
        self._falls.pool.flush()
        return found, is_more

    def _falls_back(self, octets: bytes) -> bool:
        """Whether this is a truncated answer; its query is sent again, once."""
        if len(octets) < HEADER_LEN:
            return False
        query = self._queries.pop(octets[0] << 8 | octets[1], None)
        if not octets[2] & TRUNCATED:
            return False
        if query is not None:
            self._falls.take(self._number, query)
        return True
