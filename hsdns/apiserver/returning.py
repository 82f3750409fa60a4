"""Notices at once that an API server is there again which has accepted no connections.

Path: watcher.py waits here, where a request has failed because the server is away -> transport.py reaches out.
Rule 1: while watches pause, one connection is tried every LOOK_EVERY seconds or up to twice as long, by chance, for all
        of them: to a port that is closed it costs two packets, and nothing of a server that is away.
Rule 2: only the change from no connection to one ends the pauses.  A server that accepts connections and fails to
        answer is left alone for the whole pause; so is a proxy, which accepts them in any case.
Rule 3: the connection serves the first request, so that a return costs the server no connection of its own.
Source: the pauses beside this are those of client-go (backoff.py), which knows nothing of the kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from hsdns.apiserver.transport import Unreachable

LOOK_EVERY: Final = 0.5  # seconds
REACH_TIMEOUT: Final = (
    2.0  # seconds: the packets to a host that is away are lost, and sent again more and more seldom
)


class Returning:
    """Looks for the return of one server; `reach` opens a connection, or raises Unreachable."""

    def __init__(self, reach: Callable[[], Awaitable[None]], random: Random) -> None:
        self._reach = reach
        self._random = random
        self._returned = asyncio.Event()
        self._waiting = 0
        self._looking: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Wait until it has returned."""
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
