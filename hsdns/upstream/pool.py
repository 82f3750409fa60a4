"""Pool of idle connections to an upstream.

Path: upstream/exchange.py takes a connection for each query and gives it back.
Source: CoreDNS 1.14.7 plugin/pkg/proxy persistent.go: the oldest connection is used first, so that many source ports
stay in use; one that is idle for longer than `expire`, or older than `max_age`, is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from hsdns.upstream.connection import Connection

# CoreDNS has no limit by default, and may exhaust the file descriptors (often 1,024) after a burst.
MAX_IDLE: Final = 256


class Pool:
    """The idle connections by protocol, the one idle for longest first; times in seconds.

    A `max_age` of 0 means no limit; `max_idle` is per protocol, and 0 means MAX_IDLE.
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
        """The number of idle connections."""
        return sum(map(len, self._idle.values()))

    def take(self, protocol: str) -> Connection | None:
        """Take a usable idle connection, None if there is none."""
        idle, now = self._idle.get(protocol), self._clock()
        while idle:
            since, connection = idle.popleft()
            if now - since <= self._expire and not self._is_expired(connection, now):
                return connection
            connection.close()
        return None

    def give(self, protocol: str, connection: Connection) -> None:
        """Return a connection to the pool."""
        idle = self._idle.setdefault(protocol, deque())
        now = self._clock()
        if self._is_closed or self._is_expired(connection, now) or len(idle) >= self._max_idle:
            connection.close()
            return
        idle.append((now, connection))
        self._schedule_sweep()

    def sweep(self) -> None:
        """Close connections that are idle for too long; called by a timer while there are any."""
        self._timer = None
        now = self._clock()
        for protocol, idle in self._idle.items():
            good: deque[tuple[float, Connection]] = deque()
            for since, connection in idle:
                if now - since >= self._expire or self._is_expired(connection, now):
                    connection.close()
                else:
                    good.append((since, connection))
            self._idle[protocol] = good
        if len(self):
            self._schedule_sweep()

    def close(self) -> None:
        """Close all connections, and later those that are given back."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for idle in self._idle.values():
            while idle:
                idle.popleft()[1].close()

    def _is_expired(self, connection: Connection, now: float) -> bool:
        return not connection.is_open or now - connection.opened > self._max_age

    def _schedule_sweep(self) -> None:
        if self._timer is None:
            # At least a second, so that `expire 0s` does not busy the loop.
            delay = max(self._expire, 1.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.sweep)
