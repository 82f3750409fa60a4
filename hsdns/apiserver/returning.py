"""Detects at once that an API server that accepted no connections accepts them again.

Path: watcher.py, after a request that failed because the server is away -> here -> transport.py opens connections.
Rule 1: while watches pause, one connection for all of them is tried at random intervals of LOOK_EVERY to twice
        LOOK_EVERY seconds.  It costs two packets if the port is closed, and a server that is away nothing.
Rule 2: only the change from no connection to a connection ends the pauses.  A server that accepts connections but does
        not answer gets the whole pause; so does a proxy, which always accepts connections.
Rule 3: the first request uses this connection, so that detecting a return costs no additional one.
Source: the pauses themselves are those of client-go (backoff.py), which has nothing like this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from hsdns.apiserver.transport import Unreachable

LOOK_EVERY: Final = 0.5  # seconds
REACH_TIMEOUT: Final = (
    2.0  # seconds: lost packets to a host that is away are sent again at growing intervals
)


class Returning:
    """Waits for the return of one server; `reach` opens a connection, or raises Unreachable."""

    def __init__(self, reach: Callable[[], Awaitable[None]], random: Random) -> None:
        self._reach = reach
        self._random = random
        self._returned = asyncio.Event()
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Wait until the server has returned."""
        self._waiting += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look for the API server")
        try:
            await self._returned.wait()
        finally:
            self._waiting -= 1
            if not self._waiting and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY * (1.0 + self._random.random()))
            try:
                async with asyncio.timeout(REACH_TIMEOUT):
                    await self._reach()
            except (Unreachable, TimeoutError):
                continue
            self._looking = None
            self._returned.set()
            self._returned = asyncio.Event()
            return
