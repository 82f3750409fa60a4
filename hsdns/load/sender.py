"""Sends queries when they are due and notes what becomes of them: open loop, over any number of UDP sockets.

Path: sender_process.py runs it in a process of its own -> here -> udp.py; in_flight.py has what waits for a reply.
      Twin of native/src/load_sender.rs, which is used where it was compiled.
Rule 1: what is due is sent at the next turn, whatever has been answered so far; nothing is skipped and nothing waits
        for a reply.
Rule 2: what is late is sent late, and both times are noted; the reports tell the generator's lateness from latency.
        A query is sent when the call of the system that sent it returns, so that its time counts as well.
Rule 3: nothing is counted here and no reply is read beyond its ID and flags: whatever takes time is done elsewhere.
Rule 4: with `most`, rules 1 and 2 do not hold: no more queries than that wait at once, and the schedule is put off
        while it waits for room, so that the rate is not exceeded afterwards.
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
    pack_outcome,
)

MOST: Final = 16  # queries sent in one turn
REPORT_EVERY: Final = 20_000_000  # nanoseconds
SPIN: Final = 60_000  # nanoseconds before a query is due from which nothing is waited for
LONGEST: Final = 50_000_000  # nanoseconds that are waited for at once
# Nanoseconds by which a schedule that waits for room may be behind before it is put off: so queries leave together.
CATCH_UP: Final = 10_000_000
GATHER: Final = (
    1_000_000  # nanoseconds after a query is due that such a schedule waits, for the same reason
)
MOST_REPLIES: Final = 100_000  # different ones that are remembered
HEADER_LEN: Final = 12


class Wire(Protocol):
    """One socket."""

    def send(self, queries: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the places of those that could not be sent."""

    def receive(self) -> tuple[list[bytes], bool]:
        """Return what has arrived, some of it at once, and whether there may be more."""


class Sender:
    """Sends `queries` (without IDs) at `times`, in an `order` of their numbers.

    `wait` waits at most so many nanoseconds for a reply, returns the numbers of the wires that have one, and None if
    the sender is to end.  `emit` gets messages (outcome.py).  `replies`: whether they are wanted.  `most` queries wait
    at once, 0 for any number.
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
        self._replies: dict[bytes, int] = {}
        self._reply_count = 0
        self._outcomes = bytearray()  # packed at once: all together would delay queries
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
        """How many more queries may wait."""
        return max(0, self._most - len(self._in_flight)) if self._most else MOST

    def _send(self, begin: int, due: int, now: int, most: int) -> int | None:
        """Send what is due, at most so much; return when the next query is."""
        place, order, times = self._in_flight.place, self._order, self._times
        leaving: list[tuple[int, int, int]] = []  # ID, question, planned; of one socket
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
            if len(self._replies) == MOST_REPLIES:
                self._report(self._reported)
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
        self._outcomes += pack_outcome(question, 0, 0, planned, sent, why)

    def _report(self, now: int) -> None:
        if self._outcomes:
            self._emit(frame(OUTCOMES, self._outcomes))
            self._outcomes.clear()
        self._reported = now
