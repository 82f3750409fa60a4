"""The queries that wait for their replies.

Path: sender.py -> here.  Twin of native/src/load_sender/in_flight.rs.
Rule 1: RUN queries leave from one socket, then as many from the next; IDs are used in order, from the one that a
        socket begins with.  So the number of a query says its place.
Rule 2: queries are lost in the order in which they were sent, so nothing is searched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

IDS: Final = 65_536
RUN: Final = 16  # queries that leave from one socket, one after another

# Number of the question, when it was due, when it was sent (nanoseconds).
Waiting = tuple[int, int, int]


class InFlight:
    """Queries by socket and ID; `timeout` in nanoseconds, `first_ids` those that sockets begin with, 0 without."""

    def __init__(self, sockets: int, timeout: int, first_ids: Sequence[int] = ()) -> None:
        self.sockets = sockets
        self.timeout = timeout
        self.late = 0  # replies to nothing that waits: too late, or twice
        self._first_ids = first_ids or [0] * sockets
        self._places: list[Waiting | None] = [None] * (sockets * IDS)
        self._order: deque[tuple[int, Waiting]] = deque()
        self._next = 0
        self._count = 0

    def place(self) -> tuple[int, int]:
        """Socket and ID of the next query."""
        number = self._next
        self._next = (number + 1) % len(self._places)
        run, within = divmod(number, RUN)
        turn, socket = divmod(run, self.sockets)
        return socket, (turn * RUN + within + self._first_ids[socket]) % IDS

    def begin(self, socket: int, query_id: int, waiting: Waiting) -> Waiting | None:
        """A query has been sent; return the one that still waited with this ID, which no reply can be told to now."""
        place = socket * IDS + query_id
        before = self._places[place]
        self._count += before is None
        self._places[place] = waiting
        self._order.append((place, waiting))
        return before

    def answered(self, socket: int, query_id: int) -> Waiting | None:
        """Take the query of a reply; None if none waits for it."""
        place = socket * IDS + query_id
        found = self._places[place]
        if found is None:
            self.late += 1
        else:
            self._places[place] = None
            self._count -= 1
        return found

    def lost(self, now: int) -> list[Waiting]:
        """Take the queries that were sent `timeout` ago and have no reply."""
        order, places, found = self._order, self._places, []
        before = now - self.timeout
        while order and order[0][1][2] <= before:
            place, waiting = order.popleft()
            if places[place] is waiting:
                places[place] = None
                self._count -= 1
                found.append(waiting)
        return found

    def __len__(self) -> int:
        """How many wait."""
        return self._count


def sockets_for(fastest: float, timeout: float, least: int) -> int:
    """How many sockets a rate needs, so that no ID is used again before its time is over."""
    most = max(1.0, fastest * timeout * 1.5 + 1)
    return max(least, -(-int(most) // (IDS // 2)))
