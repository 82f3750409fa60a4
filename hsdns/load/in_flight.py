"""The queries that wait for their replies.

Path: sender.py -> here.
Rule 1: query number N leaves from socket N % sockets with ID N // sockets % 65536, so its place says both.
Rule 2: queries are lost in the order in which they were sent, so nothing is searched.
"""

from __future__ import annotations

from collections import deque
from typing import Final

IDS: Final = 65_536

# Number of the question, when it was due, when it was sent (nanoseconds).
Waiting = tuple[int, int, int]


class InFlight:
    """Queries by socket and ID; `timeout` in nanoseconds."""

    def __init__(self, sockets: int, timeout: int) -> None:
        self.sockets = sockets
        self.timeout = timeout
        self.late = 0  # replies to nothing that waits: too late, or twice
        self._places: list[Waiting | None] = [None] * (sockets * IDS)
        self._order: deque[tuple[int, Waiting]] = deque()
        self._next = 0

    def place(self) -> tuple[int, int]:
        """Socket and ID of the next query."""
        number = self._next
        self._next = (number + 1) % len(self._places)
        return number % self.sockets, number // self.sockets

    def begin(self, socket: int, query_id: int, waiting: Waiting) -> Waiting | None:
        """A query has been sent; return the one that still waited with this ID, which no reply can be told to now."""
        place = query_id * self.sockets + socket
        before = self._places[place]
        self._places[place] = waiting
        self._order.append((place, waiting))
        return before

    def answered(self, socket: int, query_id: int) -> Waiting | None:
        """Take the query of a reply; None if none waits for it."""
        place = query_id * self.sockets + socket
        found = self._places[place]
        if found is None:
            self.late += 1
        else:
            self._places[place] = None
        return found

    def lost(self, now: int) -> list[Waiting]:
        """Take the queries that were sent `timeout` ago and have no reply."""
        order, places, found = self._order, self._places, []
        before = now - self.timeout
        while order and order[0][1][2] <= before:
            place, waiting = order.popleft()
            if places[place] is waiting:
                places[place] = None
                found.append(waiting)
        return found

    def rest(self) -> list[Waiting]:
        """Take all that wait still."""
        return self.lost(1 << 62)

    def __len__(self) -> int:
        """How many may wait; those that were answered are counted until their time is over."""
        return len(self._order)


def sockets_for(fastest: float, timeout: float, least: int) -> int:
    """How many sockets a rate needs, so that no ID is used again before its time is over."""
    most = max(1.0, fastest * timeout * 1.5 + 1)
    return max(least, -(-int(most) // (IDS // 2)))
