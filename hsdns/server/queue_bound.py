"""The capacity of a queue of misses, so that under lasting overload the queries that are answered are answered soon.

Path: udp_listener.py reports each iteration of the loop, and sets the capacity of the queue (fastpath/miss_queue.py).
Rule 1: a burst may fill the whole queue.  Only when a queue has grown in each of GROWING periods, or has not been empty
        for STANDING seconds, is its capacity lowered, to the number of queries that are answered in MAX_WAIT seconds:
        a longer queue would only delay every reply, in the end beyond the client's timeout.  Time without iterations
        does not count: nothing came, or the process was stopped.
Rule 2: the full capacity returns when nothing has been dropped for QUIET seconds.  For RECENT seconds after that, the
        capacity is lowered again as soon as the queue has not been empty for a PERIOD: otherwise, at the edge of
        overload, it would fill up every second.
"""

from __future__ import annotations

from typing import Final

from hsdns.fastpath.miss_queue import CAPACITY

PERIOD: Final = 0.05  # seconds over which the rate is measured
GROWING: Final = 3  # periods
STANDING: Final = 0.5  # seconds
QUIET: Final = 1.0  # seconds
RECENT: Final = 10.0  # seconds
MAX_WAIT: Final = 0.01  # seconds
LEAST: Final = 64  # misses


class QueueBound:
    """Computes the capacity of one queue; times in monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.capacity = CAPACITY
        # When the period began, when the queue was last empty, when it last dropped a query.
        self._began = self._empty = self._quiet = self._noted = now
        self._has_left = False
        self._lifted = now - RECENT
        self._answered = 0  # in this period
        self._left = 0  # misses in the queue at the start of the period
        self._grown = (
            0  # periods in a row in which the queue grew beyond what is answered in MAX_WAIT
        )
        self._dropped = 0  # at the start of the period

    def note(self, now: float, answered: int, left: int, dropped: int) -> int | None:
        """Record an iteration of the loop: the queries answered, those left, and the total number of dropped ones.

        Return the new capacity, if it changes.
        """
        self._answered += answered
        if not (left and self._has_left) or now - self._noted >= STANDING:
            self._empty = (
                now  # what it has now came after a rest, of the clients or of this process
            )
        self._has_left, self._noted = left > 0, now
        if now - self._began < PERIOD:
            return None
        rate = self._answered / (now - self._began)
        is_dropping = dropped != self._dropped
        self._grown = self._grown + 1 if left > max(self._left, rate * MAX_WAIT) else 0
        self._began, self._answered, self._left, self._dropped = now, 0, left, dropped
        if is_dropping:
            self._quiet = now
        before = self.capacity
        if before == CAPACITY:
            standing = PERIOD if now - self._lifted < RECENT else STANDING
            if self._grown >= GROWING or now - self._empty >= standing:
                self.capacity, self._quiet = _bound(rate), now
        elif is_dropping:
            self.capacity = _bound(rate)
        elif now - self._quiet >= QUIET:
            self.capacity, self._lifted = CAPACITY, now
        return None if self.capacity == before else self.capacity


def _bound(rate: float) -> int:
    return min(max(int(rate * MAX_WAIT), LEAST), CAPACITY)
