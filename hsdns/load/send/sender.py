"""Sends queries when they are due and records their outcomes: open loop, over any number of UDP sockets.

Path: process.py runs it in a separate process -> here -> udp.py.  Twin of
native/src/load_sender.rs, which is used if it was compiled.
Rule 1: a query that is due is sent in the next turn, regardless of earlier replies; none is skipped, and none waits for
        a reply.
Rule 2: a late query is sent late, and both times are recorded, so that reports separate the generator's lateness from
        latency.  A query counts as sent when its system call returns, so that the call's time is included.
Rule 3: this module does not count, and reads only the ID and flags of a reply: slow work is done elsewhere.
Rule 4: with `most`, rules 1 and 2 do not hold: at most that many queries wait at once, and the schedule is postponed
        while it waits for room, so that the rate is not exceeded afterwards.

The queries that wait for their replies:
Rule 1: RUN queries leave from one socket, then RUN from the next; a socket uses its IDs in order, from its first one.
        So the number of a query determines its socket and ID, and these determine which of the last queries it was.
Rule 2: the last `window` queries have a slot each, for any number of sockets, so memory depends on how many can wait at
        once.  A query whose slot is needed again is lost.
Rule 3: queries are lost in the order in which they were sent, so no search is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from hsdns.load.outcome import (
    LOST,
    NOT_SENT,
    OUTCOMES,
    RecentReplies,
    forget_frame,
    frame,
    pack_outcome,
    reply_frame,
)

IDS: Final = 65_536
RUN: Final = 16  # consecutive queries from one socket
LEAST_WINDOW: Final = IDS

# The number of the question, when it was due, and when it was sent (nanoseconds).
Waiting = tuple[int, int, int]


class InFlight:
    """Queries by socket and ID; `timeout` in nanoseconds, `first_ids` are the first IDs of sockets, 0 by default.

    `window` is how many may wait at once; 0: the number of IDs.
    """

    def __init__(
        self, sockets: int, timeout: int, first_ids: Sequence[int] = (), window: int = 0
    ) -> None:
        self.sockets = sockets
        self.timeout = timeout
        self.late = 0  # replies that no query waits for: too late, or duplicates
        self._first_ids = first_ids or [0] * sockets
        self._ids = sockets * IDS
        self._window = min(window or self._ids, self._ids)
        self._places: list[tuple[int, Waiting] | None] = [None] * self._window
        self._order: deque[tuple[int, Waiting]] = deque()
        self._next = 0
        self._count = 0

    def place(self) -> tuple[int, int]:
        """Socket and ID of the next query."""
        number = self._next
        self._next = number + 1
        run, within = divmod(number % self._ids, RUN)
        turn, socket = divmod(run, self.sockets)
        return socket, (turn * RUN + within + self._first_ids[socket]) % IDS

    def begin(self, socket: int, query_id: int, waiting: Waiting) -> Waiting | None:
        """Record that a query was sent; return the one that still waited in its slot, which is lost."""
        number = self._number(socket, query_id)
        at = number % self._window
        before = self._places[at]
        self._count += before is None
        self._places[at] = found = number, waiting
        self._order.append(found)
        return None if before is None else before[1]

    def answered(self, socket: int, query_id: int) -> Waiting | None:
        """Remove and return the query of a reply; None if none waits for it."""
        number = self._number(socket, query_id)
        at = number % self._window
        found = self._places[at]
        if found is None or found[0] != number:
            self.late += 1
            return None
        self._places[at] = None
        self._count -= 1
        return found[1]

    def lost(self, now: int) -> list[Waiting]:
        """Remove and return the queries that were sent `timeout` ago and have no reply."""
        order, places, found = self._order, self._places, []
        before = now - self.timeout
        while order and order[0][1][2] <= before:
            sent = order.popleft()
            at = sent[0] % self._window
            if places[at] is sent:
                places[at] = None
                self._count -= 1
                found.append(sent[1])
        return found

    def _number(self, socket: int, query_id: int) -> int:
        """The number of the last query with an ID from a socket; below 0 if there was none."""
        turn, within = divmod((query_id - self._first_ids[socket]) % IDS, RUN)
        last = self._next - 1
        return last - (last - (turn * self.sockets + socket) * RUN - within) % self._ids

    def __len__(self) -> int:
        """The number of waiting queries."""
        return self._count


def sockets_for(fastest: float, timeout: float, least: int) -> int:
    """How many sockets a rate needs, so that no ID is reused before its timeout."""
    most = max(1.0, fastest * timeout * 1.5 + 1)
    return max(least, -(-int(most) // (IDS // 2)))


def window_for(fastest: float, timeout: float, burst: int = 1) -> int:
    """How many queries may wait at once: those of three timeouts, because late ones are sent together."""
    return max(LEAST_WINDOW, int(3 * fastest * timeout) + burst)


MOST: Final = 16  # queries sent in one turn
REPORT_EVERY: Final = 20_000_000  # nanoseconds
SPIN: Final = 60_000  # nanoseconds before a query is due from which it does not wait
LONGEST: Final = 50_000_000  # maximum nanoseconds of one wait
# Nanoseconds by which a schedule that waits for room may be late before it is postponed: so queries leave together.
CATCH_UP: Final = 10_000_000
GATHER: Final = (
    1_000_000  # nanoseconds after a query is due that such a schedule waits, for the same reason
)
HEADER_LEN: Final = 12


class Wire(Protocol):
    """One socket."""

    def send(self, queries: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""

    def receive(self) -> tuple[list[bytes], bool]:
        """Return some of the datagrams that have arrived, and whether there may be more."""


class Sender:
    """Sends `queries` (without IDs) at `times`, in an `order` of their numbers.

    `wait` waits for a reply for at most the given nanoseconds, and returns the numbers of the wires that have one, or
    None if the sender must end.  `emit` takes messages (outcome.py).  `replies`: whether they are wanted.  At most
    `most` queries wait at once, 0 for any number.
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        queries: Sequence[bytes],
        times: Iterator[int],
        order: Iterator[int],
        in_flight: InFlight,
        *,
        clock: Callable[[], int],
        wait: Callable[[int], list[int] | None],
        emit: Callable[[bytes], None],
        replies: bool,
        most: int = 0,
    ) -> None:
        self._most = most
        self._wires = wires
        self._queries = queries
        self._times = times
        self._order = order
        self._in_flight = in_flight
        self._clock = clock
        self._wait = wait
        self._emit = emit
        self._wants_replies = replies
        self._replies = RecentReplies[int]()
        self._reply_count = 0
        self._outcomes = bytearray()  # packed one by one: packing all together would delay queries
        self._reported = 0

    def run(self, begin: int) -> None:
        """Send everything, and wait for the last replies; `begin` is the time at which the schedule begins."""
        self._reported = begin
        due = next(self._times, None)
        while True:
            now = self._clock()
            if due is not None and begin + due <= now:
                if self._most:
                    begin = max(begin, now - due - CATCH_UP)
                room = self._room()
                if room:
                    due = self._send(begin, due, now, min(MOST, room))
                left = 0 if room else LONGEST
            elif due is not None:
                left = begin + due - now + (GATHER if self._most else -SPIN)
            elif not len(self._in_flight):
                break
            else:
                left = LONGEST
            ready = self._wait(min(max(left, 0), LONGEST))
            if ready is None:
                break
            for number in ready:
                self._receive(number)
            now = self._clock()
            for waiting in self._in_flight.lost(now):
                self._without_reply(waiting, LOST)
            if now - self._reported > REPORT_EVERY:
                self._report(now)
        now = self._clock()
        for waiting in self._in_flight.lost(now):
            self._without_reply(waiting, LOST)
        self._report(now)

    def _room(self) -> int:
        """The number of further queries that may wait."""
        return max(0, self._most - len(self._in_flight)) if self._most else MOST

    def _send(self, begin: int, due: int, now: int, most: int) -> int | None:
        """Send at most `most` queries that are due; return when the next one is due."""
        place, order, times = self._in_flight.place, self._order, self._times
        leaving: list[tuple[int, int, int]] = []  # ID, question, planned; for one socket
        following: int | None = due
        last = -1
        for _ in range(most):
            if following is None or begin + following > now:
                break
            socket, query_id = place()
            if socket != last and leaving:
                self._send_from(last, leaving)
                leaving = []
            last = socket
            leaving.append((query_id, next(order), begin + following))
            following = next(times, None)
        self._send_from(last, leaving)
        return following

    def _send_from(self, socket: int, leaving: list[tuple[int, int, int]]) -> None:
        queries, begin = self._queries, self._in_flight.begin
        octets = [
            query_id.to_bytes(2, "big") + queries[question] for query_id, question, _ in leaving
        ]
        refused = self._wires[socket].send(octets)
        sent = self._clock()
        for place, (query_id, question, planned) in enumerate(leaving):
            if refused and place in refused:
                self._without_reply((question, planned, sent), NOT_SENT)
                continue
            before = begin(socket, query_id, (question, planned, sent))
            if before is not None:
                self._without_reply(before, LOST)

    def _receive(self, socket: int) -> None:
        wire, in_flight, outcomes = self._wires[socket], self._in_flight, self._outcomes
        is_more = True
        while is_more:
            found, is_more = wire.receive()
            now = self._clock()
            for octets in found:
                if len(octets) < HEADER_LEN:
                    continue
                waiting = in_flight.answered(socket, octets[0] << 8 | octets[1])
                if waiting is None:
                    continue
                question, planned, sent = waiting
                number = self._number(question, octets) if self._wants_replies else 0
                flags = octets[2] << 8 | octets[3]
                outcomes += pack_outcome(question, flags, number, planned, sent, now)

    def _number(self, question: int, octets: bytes) -> int:
        """The number of a reply; new ones are emitted."""
        content = octets[2:]
        number = self._replies.get(content)
        if number is None:
            number = self._reply_count = self._reply_count + 1
            if dropped := self._replies.add(content, number):
                self._report(self._reported)
                self._emit(forget_frame(dropped))
            self._emit(reply_frame(number, question, content))
        return number

    def _without_reply(self, waiting: Waiting, why: int) -> None:
        question, planned, sent = waiting
        self._outcomes += pack_outcome(question, 0, 0, planned, sent, why)

    def _report(self, now: int) -> None:
        if self._outcomes:
            self._emit(frame(OUTCOMES, self._outcomes))
            self._outcomes.clear()
        self._reported = now
