"""Sends queries over connections when they are due and records their outcomes: open loop, like sender.py over UDP.

Path: stream_process.py runs it in a separate process -> here -> pool.py; telling.py makes the messages.
Rule 1: a query that is due is passed to the connections in the next turn, regardless of earlier replies.
Rule 2: a query counts as sent when all queries of its turn have been passed to the connections and written as far as
        these accept them.  Waiting there for the set-up or for room belongs to the transport, and is part of its
        latency.
Rule 3: a late sender passes several queries to each connection in a turn, so that one write and one read carry many of
        them; a sender that is on time sends each separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hsdns.load.asked import Asked
from hsdns.load.pool import Pool
from hsdns.load.telling import Telling

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
