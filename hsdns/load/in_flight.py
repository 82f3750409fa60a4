"""The queries that wait for their replies.

Path: sender.py -> here.  Twin of native/src/load_sender/in_flight.rs.
Rule 1: RUN queries leave from one socket, then RUN from the next; a socket uses its IDs in order, from its first one.
        So the number of a query determines its socket and ID, and these determine which of the last queries it was.
Rule 2: the last `window` queries have a slot each, for any number of sockets, so memory depends on how many can wait at
        once.  A query whose slot is needed again is lost.
Rule 3: queries are lost in the order in which they were sent, so no search is needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

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
