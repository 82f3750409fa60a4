"""A thread with an event loop of its own, which may turn before the server has been imported.

Path: cli/launch.py starts it for requests that are sent ahead (sources/ahead.py); watch_loop.py runs what watches here.
Rule: this module imports nothing of the server, so that nothing is in front of those requests.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Final

import uvloop

# Seconds that another thread may hold the interpreter while this one waits for it (docs/decisions/0008).
SWITCH_INTERVAL: Final = 0.0005


class WatchThread:
    """The thread; what `at_end` returns is awaited in it before it ends, the last one first."""

    def __init__(self) -> None:
        self.at_end: list[Callable[[], Awaitable[None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    @property
    def has_started(self) -> bool:
        """Whether start() was called."""
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Its event loop; only after start()."""
        assert self._loop is not None, "started"
        return self._loop

    def start(self) -> None:
        """Start it, unless it has started; return when its loop turns."""
        if self._loop is None:
            self._thread.start()
            self._has_started.wait()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in it; from any thread."""
        self.loop.call_soon_threadsafe(function)

    def end(self) -> None:
        """Let it end; from any thread."""
        self.call(lambda: self._end.set())

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; return whether it has, within so many seconds."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self._end = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._has_started.set()
        await self._end.wait()
        while self.at_end:
            await self.at_end.pop()()
