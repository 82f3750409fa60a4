"""Sends queries when they are due and notes what becomes of them: open loop, over any number of UDP sockets.

Path: sender_process.py runs it in a process of its own -> here -> udp.py; in_flight.py has what waits for a reply.
Rule 1: what is due is sent at the next turn, whatever has been answered so far; nothing is skipped and nothing waits
        for a reply.
Rule 2: what is late is sent late, and both times are noted; the reports tell the generator's lateness from latency.
Rule 3: nothing is counted here and no reply is read beyond its ID and flags: whatever takes time is done elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from hsdns.load.in_flight import InFlight, Waiting
from hsdns.load.outcome import (
    FORGET,
    LOST,
    NOT_SENT,
    OUTCOMES,
    REPLY,
    frame,
    pack_outcomes,
)

MOST: Final = 64  # queries sent in one turn: one call of the system
REPORT_EVERY: Final = 20_000_000  # nanoseconds
SPIN: Final = 60_000  # nanoseconds before a query is due from which nothing is waited for
LONGEST: Final = 50_000_000  # nanoseconds that are waited for at once
MOST_REPLIES: Final = 100_000  # different ones that are remembered
HEADER_LEN: Final = 12


class Wire(Protocol):
    """One socket."""

    def send(self, queries: Sequence[bytes]) -> int:
        """Send datagrams; return how many of them, from the end, could not be sent."""

    def receive(self) -> list[bytes]:
        """Return what has arrived, at most some at once; empty for nothing."""


class Sender:
    """Sends `queries` (without IDs) at `times`, in an `order` of their numbers.

    `wait` waits at most so many nanoseconds for a reply, returns the numbers of the wires that have one, and None if
    the sender is to end.  `emit` gets messages (outcome.py).  `replies`: whether they are wanted.
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
    ) -> None:
        self._wires = wires
        self._queries = queries
        self._times = times
        self._order = order
        self._in_flight = in_flight
        self._clock = clock
        self._wait = wait
        self._emit = emit
        self._wants_replies = replies
        self._replies: dict[bytes, int] = {}
        self._reply_count = 0
        self._outcomes: list[tuple[int, int, int, int, int, int]] = []
        self._reported = 0

    def run(self, begin: int) -> None:
        """Send everything, and wait for the last replies; `begin` is the time at which the schedule begins."""
        self._reported = begin
        due = next(self._times, None)
        while True:
            now = self._clock()
            if due is not None and begin + due <= now:
                due = self._send(begin, due, now)
                left = 0
            elif due is not None:
                left = begin + due - now - SPIN
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
        for waiting in self._in_flight.rest():
            if waiting[2] + self._in_flight.timeout <= self._clock():
                self._without_reply(waiting, LOST)
        self._report(self._clock())

    def _send(self, begin: int, due: int, now: int) -> int | None:
        """Send what is due; return when the next query is."""
        wires, in_flight = self._wires, self._in_flight
        together: list[list[tuple[bytes, int, Waiting]]] = [[] for _ in wires]
        following: int | None = due
        for _ in range(MOST):
            if following is None or begin + following > now:
                break
            question = next(self._order)
            socket, query_id = in_flight.place()
            octets = query_id.to_bytes(2, "big") + self._queries[question]
            together[socket].append((octets, query_id, (question, begin + following, now)))
            following = next(self._times, None)
        for socket, some in enumerate(together):
            if not some:
                continue
            for _, query_id, waiting in some:
                before = in_flight.begin(socket, query_id, waiting)
                if before is not None:
                    self._without_reply(before, LOST)
            refused = wires[socket].send([octets for octets, _, _ in some])
            for _, query_id, waiting in some[len(some) - refused :]:
                in_flight.answered(socket, query_id)
                self._without_reply(waiting, NOT_SENT)
        return following

    def _receive(self, socket: int) -> None:
        wire, in_flight, outcomes = self._wires[socket], self._in_flight, self._outcomes
        while found := wire.receive():
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
                outcomes.append((question, flags, number, planned, sent, now))
            if len(found) < MOST:
                break

    def _number(self, question: int, octets: bytes) -> int:
        """The number of a reply; new ones are emitted."""
        content = octets[2:]
        number = self._replies.get(content)
        if number is None:
            self._report(self._reported)
            if len(self._replies) == MOST_REPLIES:
                self._replies.clear()
                self._emit(frame(FORGET))
            self._reply_count += 1
            number = self._replies[content] = self._reply_count
            self._emit(
                frame(REPLY, number.to_bytes(4, "big") + question.to_bytes(4, "big") + content)
            )
        return number

    def _without_reply(self, waiting: Waiting, why: int) -> None:
        question, planned, sent = waiting
        self._outcomes.append((question, 0, 0, planned, sent, why))

    def _report(self, now: int) -> None:
        if self._outcomes:
            self._emit(frame(OUTCOMES, pack_outcomes(self._outcomes)))
            self._outcomes.clear()
        self._reported = now
