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
from typing import Final, Protocol

from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.send.loop import HEADER_LEN, Ended, Query
from hsdns.load.send.pool import Pool

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


class Datagrams(Protocol):
    """The interface of UdpSocket for UdpTransport."""

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        """Return some of the datagrams that have arrived, with their times, and whether there may be more."""


class UdpTransport:
    """Queries over sockets; `timeout` in nanoseconds, `first_ids` are the first IDs of sockets, 0 by default.

    `window` 0: the number of IDs.
    """

    def __init__(
        self,
        sockets: Sequence[Datagrams],
        timeout: int,
        ended: Ended,
        clock: Callable[[], int],
        *,
        first_ids: Sequence[int] = (),
        window: int = 0,
        run: int = RUN,
        fallback: Pool | None = None,
    ) -> None:
        self.turn = RUN
        self._sockets = sockets
        self._timeout = timeout
        self._ended = ended
        self._clock = clock
        self._first_ids = first_ids or [0] * len(sockets)
        self._ids = len(sockets) * IDS
        self._window = min(window or self._ids, self._ids)
        self._run = run
        self._fallback = fallback
        self._next = 0
        # By the number of a query modulo the window, and by socket and ID, which is the key of a query.
        self._slots: dict[int, Query] = {}
        self._waiting: dict[int, Query] = {}
        self._order: deque[Query] = deque()  # in the order of sending
        self._leaving: list[tuple[int, Query]] = []  # with their numbers, of one socket

    @property
    def waits(self) -> int:
        """The number of queries that wait for a reply."""
        return len(self._waiting) + (0 if self._fallback is None else self._fallback.waits)

    def ask(self, query: Query) -> None:
        """Take a query; those of one socket are sent together."""
        number = self._next
        self._next += 1
        run, within = divmod(number % self._ids, self._run)
        turn, socket = divmod(run, len(self._sockets))
        query.key = socket << 16 | (turn * self._run + within + self._first_ids[socket]) % IDS
        if self._leaving and self._leaving[-1][1].key >> 16 != socket:
            self._send()
        self._leaving.append((number, query))

    def flush(self) -> None:
        """Send what was taken, and what connections have room for."""
        if self._leaving:
            self._send()
        if self._fallback is not None:
            self._fallback.flush()

    def receive(self, number: int) -> None:
        """Receive the replies of a socket."""
        is_more = True
        while is_more:
            found, is_more = self._sockets[number].receive()
            now = self._clock()
            for octets, received in found:
                if len(octets) < HEADER_LEN:
                    continue
                query = self._waiting.pop(number << 16 | octets[0] << 8 | octets[1], None)
                if query is None:
                    continue
                if self._fallback is not None and octets[2] & TRUNCATED:
                    self._fallback.take_truncated(query)
                else:
                    at = max(received, query.sent) if received else now
                    self._ended(query, octets, at)

    def expire(self, now: int) -> None:
        """Give up queries after their timeout."""
        order, before = self._order, now - self._timeout
        while order and order[0].sent <= before:
            self._give_up(order.popleft())
        if self._fallback is not None:
            self._fallback.expire(now)

    def close(self) -> None:
        """End: queries whose timeout is over are lost, and nothing becomes of the others."""
        self.expire(self._clock())
        if self._fallback is not None:
            self._fallback.close()

    def _send(self) -> None:
        leaving, self._leaving = self._leaving, []
        datagrams = [(each.key & 0xFFFF).to_bytes(2, "big") + each.octets for _, each in leaving]
        refused = self._sockets[leaving[0][1].key >> 16].send(datagrams)
        sent = self._clock()
        for at, (number, query) in enumerate(leaving):
            query.sent = sent
            if refused and at in refused:
                self._ended(query, b"", NOT_SENT)
                continue
            slot = number % self._window
            if slot in self._slots:
                self._give_up(self._slots[slot])
            self._slots[slot] = self._waiting[query.key] = query
            self._order.append(query)

    def _give_up(self, query: Query) -> None:
        if self._waiting.get(query.key) is query:
            del self._waiting[query.key]
            self._ended(query, b"", LOST)
