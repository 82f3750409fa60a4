"""Queries over UDP: from which socket each leaves, with which ID, and which of them wait for replies.

Path: loop.py, pods.py -> here -> UdpSocket of sockets.py.
Rule 1: `run` queries leave from one socket, then as many from the next; a socket uses its IDs in order, from its first
        one.  So the number of a query determines its socket and ID.
Rule 2: the last `window` queries may wait at once; the one before is then lost.  Queries are lost in the order in which
        they were sent, so no search is needed.
Rule 3: a truncated answer is asked again over TCP if there is a `fallback`, as a client does (RFC 7766 section 5).  The
        latency runs from when the query was due, and includes the truncated answer and the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from hsdns.load.counters import MICROSECOND
from hsdns.load.histogram import slot_of
from hsdns.load.outcome import ENDED, LOST, NO_QUERY, NOT_SENT, SENT_WITHIN, UNMATCHED, UNSTAMPED
from hsdns.load.send.connection import Pool
from hsdns.load.send.loop import HEADER_LEN, Ended, Query

IDS: Final = 65_536
RUN: Final = 16  # consecutive queries from one socket
LEAST_WINDOW: Final = IDS
TRUNCATED: Final = 2  # TC, in the third octet of a message


def sockets_for(fastest: float, timeout: float, least: int) -> int:
    """How many sockets a rate needs, so that no ID is reused before its timeout."""
    most = max(1.0, fastest * timeout * 1.5 + 1)
    return max(least, -(-int(most) // (IDS // 2)))


def window_for(fastest: float, timeout: float, burst: int = 1) -> int:
    """How many queries may wait at once: those of three timeouts, because late ones are sent together."""
    return max(LEAST_WINDOW, int(3 * fastest * timeout) + burst)


class SentTimes:
    """When the queries of a system call left.

    The kernel stamps one query of some calls when it leaves.  From these follows how long after the begin of a call its
    first query usually leaves (the median), and how long each takes; in a call with a stamp, all of its queries are
    moved so that the stamp is right.
    Until there is a stamp, each query takes as long as in the quicker recent calls: a quarter of them was quicker.  A
    call that takes longer was interrupted, most likely by the server that its first query woke.  A query leaves after
    three quarters of its time: on loopback, the last one delivers it, and wakes the server.
    """

    each = first = step = 0  # nanoseconds; the last two by the stamps
    PARTS: Final = 64

    def ended(self, before: int, after: int, count: int, left: tuple[int, int] | None) -> list[int]:
        """The times of the queries of a call, from the times before and after it, in nanoseconds.

        `left` is the index of one, and when it left.
        """
        each, part = (after - before) // count, self.each // self.PARTS
        self.each += (part if each > self.each else -3 * part) if self.each else each
        moved = 0
        if left and before <= left[1] <= after:
            index, passed = left[0], left[1] - before
            if index == 0:
                self.first = self._nearer(self.first, passed)
            elif self.first:
                self.step = self._nearer(self.step, (passed - self.first) // index)
            moved = passed - self._usual(index)
        return [max(before, min(after, before + self._usual(index) + moved)) for index in range(count)]  # fmt: skip

    def _usual(self, index: int) -> int:
        if self.first:
            return self.first + (self.step or self.each) * index
        return self.each * (4 * index + 3) // 4

    def _nearer(self, median: int, found: int) -> int:
        """A median that has moved towards another value; 0 for none."""
        part = max(1, median // self.PARTS)
        return max(1, median + part * ((found > median) - (found < median)) if median else found)


class Datagrams(Protocol):
    """The interface of UdpSocket for UdpTransport."""

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""

    def left(self) -> tuple[int, int] | None:
        """The index of one of these datagrams, and when it left, if the kernel has stamped one."""

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        """Return some of the datagrams that have arrived, with their times, and whether there may be more."""


@dataclass
class UdpTransport:
    """Queries over sockets; `timeout` in nanoseconds, `first_ids` are the first IDs of sockets, 0 by default.

    `window` 0: the number of IDs.
    """

    sockets: Sequence[Datagrams]
    timeout: int
    ended: Ended
    clock: Callable[[], int]
    first_ids: Sequence[int] = ()
    window: int = 0
    run: int = RUN
    fallback: Pool | None = None
    note: Callable[..., None] = lambda what, value, at, number=1: None  # of Reporter
    turn: int = RUN
    # By the number of a query modulo the window, and by socket and ID, which is the key of a query.
    _slots: dict[int, Query] = field(default_factory=dict)
    _waiting: dict[int, Query] = field(default_factory=dict)
    _order: deque[Query] = field(default_factory=deque)  # in the order of sending
    _leaving: list[tuple[int, Query]] = field(default_factory=list)  # with numbers, of one socket
    _next: int = 0
    _sent_times: SentTimes = field(default_factory=SentTimes)

    def __post_init__(self) -> None:
        self._ids = len(self.sockets) * IDS
        self.window = min(self.window or self._ids, self._ids)
        self.first_ids = self.first_ids or [0] * len(self.sockets)

    @property
    def waits(self) -> int:
        """The number of queries that wait for a reply."""
        return len(self._waiting) + (0 if self.fallback is None else self.fallback.waits)

    def ask(self, query: Query) -> None:
        """Take a query; those of one socket are sent together."""
        number = self._next
        self._next += 1
        run, within = divmod(number % self._ids, self.run)
        turn, socket = divmod(run, len(self.sockets))
        query.key = socket << 16 | (turn * self.run + within + self.first_ids[socket]) % IDS
        if self._leaving and self._leaving[-1][1].key >> 16 != socket:
            self._send()
        self._leaving.append((number, query))

    def flush(self) -> None:
        """Send what was taken, and what connections have room for."""
        if self._leaving:
            self._send()
        if self.fallback is not None:
            self.fallback.flush()

    def receive(self, number: int) -> None:
        """Receive the replies of a socket."""
        is_more = True
        while is_more:
            found, is_more = self.sockets[number].receive()
            now = self.clock()
            for octets, received in found:
                if len(octets) < HEADER_LEN:
                    self.note(UNMATCHED, NO_QUERY, now)
                    continue
                key = number << 16 | octets[0] << 8 | octets[1]
                query = self._waiting.get(key)
                if query is None:
                    self.note(UNMATCHED, ENDED if self._has_ended(key) else NO_QUERY, now)
                    continue
                why = query.misfit(octets)
                if why is not None:
                    self.note(UNMATCHED, why, now)
                    continue
                del self._waiting[key]
                if self.fallback is not None and octets[2] & TRUNCATED:
                    self.fallback.take_truncated(query)
                else:
                    if not received:
                        self.note(UNSTAMPED, 0, now)
                    at = max(query.sent, min(received or now, now))
                    self.ended(query, octets, at)

    def expire(self, now: int) -> None:
        """Give up queries after their timeout."""
        order, before = self._order, now - self.timeout
        while order and order[0].sent <= before:
            self._give_up(order.popleft())
        if self.fallback is not None:
            self.fallback.expire(now)

    def close(self) -> None:
        """End: queries whose timeout is over are lost, and nothing becomes of the others."""
        self.expire(self.clock())
        if self.fallback is not None:
            self.fallback.close()

    def _send(self) -> None:
        leaving, self._leaving = self._leaving, []
        datagrams = [(each.key & 0xFFFF).to_bytes(2, "big") + each.octets for _, each in leaving]
        before = self.clock()
        socket = self.sockets[leaving[0][1].key >> 16]
        refused = socket.send(datagrams)
        after = self.clock()
        self.note(SENT_WITHIN, slot_of((after - before) // MICROSECOND), after, len(leaving))
        times = self._sent_times.ended(before, after, len(leaving), socket.left())
        for at, (number, query) in enumerate(leaving):
            query.sent, query.after = times[at], after
            if refused and at in refused:
                self.ended(query, b"", NOT_SENT)
                continue
            slot = number % self.window
            if slot in self._slots:
                self._give_up(self._slots[slot])
            self._slots[slot] = self._waiting[query.key] = query
            self._order.append(query)

    def _has_ended(self, key: int) -> bool:
        """Whether the last queries include one with a key, which does not wait any more."""
        socket, offset = key >> 16, (key - self.first_ids[key >> 16]) % IDS
        turn, within = divmod(offset, self.run)
        number = (turn * len(self.sockets) + socket) * self.run + within
        last = self._next - 1
        query = self._slots.get((last - (last - number) % self._ids) % self.window)
        return query is not None and query.key == key

    def _give_up(self, query: Query) -> None:
        if self._waiting.get(query.key) is query:
            del self._waiting[query.key]
            self.ended(query, b"", LOST)
