"""Connections between two queries, kept for the next one.

Path: upstream/exchange.py takes from here and gives back.
Source: CoreDNS 1.14.7 plugin/pkg/proxy persistent.go: the oldest one is taken first, so that many source ports stay in
use, and what was idle for longer than `expire` is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from hsdns.upstream.connection import Connection

# CoreDNS keeps any number, and so can run out of file descriptors (1,024 is a usual limit) after a burst.
MAX_IDLE: Final = 256


class Pool:
    """Idle connections to one upstream by protocol, the one idle for longest in front; times in seconds."""

    def __init__(self, expire: float, clock: Callable[[], float]) -> None:
        self._expire = expire
        self._clock = clock
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
            if connection.is_open and now - since <= self._expire:
                return connection
            connection.close()
        return None

    def give(self, protocol: str, connection: Connection) -> None:
        """Keep a connection for the next query."""
        idle = self._idle.setdefault(protocol, deque())
        if self._is_closed or not connection.is_open or len(idle) >= MAX_IDLE:
            connection.close()
            return
        idle.append((self._clock(), connection))
        self._wind_up()

    def sweep(self) -> None:
        """Close what is idle for too long; the event loop calls this as long as anything is left."""
        self._timer = None
        now = self._clock()
        for idle in self._idle.values():
            while idle and (now - idle[0][0] >= self._expire or not idle[0][1].is_open):
                idle.popleft()[1].close()
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

    def _wind_up(self) -> None:
        if self._timer is None:
            # At least a second, so that `expire 0s` does not keep the loop busy.
            delay = max(self._expire, 1.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.sweep)
