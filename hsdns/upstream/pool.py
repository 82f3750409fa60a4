"""Connections between two queries, kept for the next one.

Path: upstream/exchange.py takes from here and gives back.
Source: CoreDNS 1.14.7 plugin/pkg/proxy persistent.go: the oldest one is taken first, so that many source ports stay in
use; what was idle for longer than `expire`, or was opened longer than `max_age` ago, is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from hsdns.upstream.connection import Connection

# Where nothing is said CoreDNS keeps any number, and so can run out of file descriptors (1,024 is a usual limit) after
# a burst.
MAX_IDLE: Final = 256


class Pool:
    """Idle connections to one upstream by protocol, the one idle for longest in front; times in seconds.

    A `max_age` of 0 sets no age; `max_idle` is for each protocol, 0 being MAX_IDLE.
    """

    def __init__(
        self,
        expire: float,
        clock: Callable[[], float],
        *,
        max_age: float = 0.0,
        max_idle: int = 0,
    ) -> None:
        self._expire = expire
        self._clock = clock
        self._max_age = max_age or float("inf")
        self._max_idle = max_idle or MAX_IDLE
        self._idle: dict[str, deque[tuple[float, Connection]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        """How many connections are idle."""
        return sum(map(len, self._idle.values()))

    def take(self, protocol: str) -> Connection | None:
        """Take an idle connection that is still good; None where there is none."""
        idle, now = self._idle.get(protocol), self._clock()
        while idle:
            since, connection = idle.popleft()
            if now - since <= self._expire and not self._is_over(connection, now):
                return connection
            connection.close()
        return None

    def give(self, protocol: str, connection: Connection) -> None:
        """Keep a connection for the next query."""
        idle = self._idle.setdefault(protocol, deque())
        now = self._clock()
        if self._is_closed or self._is_over(connection, now) or len(idle) >= self._max_idle:
            connection.close()
            return
        idle.append((now, connection))
        self._wind_up()

    def sweep(self) -> None:
        """Close what is idle for too long; the event loop calls this as long as anything is left."""
        self._timer = None
        now = self._clock()
        for protocol, idle in self._idle.items():
            good: deque[tuple[float, Connection]] = deque()
            for since, connection in idle:
                if now - since >= self._expire or self._is_over(connection, now):
                    connection.close()
                else:
                    good.append((since, connection))
            self._idle[protocol] = good
        if len(self):
            self._wind_up()

    def close(self) -> None:
        """Close all, and from now on everything that is given back."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for idle in self._idle.values():
            while idle:
                idle.popleft()[1].close()

    def _is_over(self, connection: Connection, now: float) -> bool:
        return not connection.is_open or now - connection.opened > self._max_age

    def _wind_up(self) -> None:
        if self._timer is None:
            # At least a second, so that `expire 0s` does not keep the loop busy.
            delay = max(self._expire, 1.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.sweep)
