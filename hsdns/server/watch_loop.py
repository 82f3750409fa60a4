"""The thread that follows the cluster, with an event loop of its own, and the lease of the answer table.

Path: runtime.py spawns here what watches (plugins/kubernetes/watch.py): sources, stores, snapshots, store checks.
Rule 1: nothing but that runs here, so that no query, log line, reload or transfer is in front of an event; and after
        an event, for half a millisecond at a time, the recomputation of the replies that it has invalidated
        (recomputation.py).
Rule 2: what depends on the store is valid in the answer table for LEASE seconds after a turn of this loop
        (fastpath/versions.py).  A turn that comes late does not count: what has arrived meanwhile comes first.
Rule 3: queries that are not answered from the table wait for the next turn that counts, about PATIENCE seconds in all;
        then they are answered from the last known state, as while the API server is away.  So do zone transfers, and
        cached replies that hold only while the cluster does not have the name.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from math import inf
from typing import Any, Final

from hsdns.fastpath import shorten_slice
from hsdns.server.runtime import Tasks
from hsdns.server.watch_thread import WatchThread
from hsdns.server.watchdog import Watchdog

LEASE: Final = 1.0  # seconds
PATIENCE: Final = 2.0  # seconds
POLL: Final = 0.02  # seconds between looks while queries wait
END_TIMEOUT: Final = 10.0  # seconds for what runs here to end: a snapshot is saved once more
log = logging.getLogger("hsdns.server")


class WatchTask:
    """A task of the watch loop, for other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.task: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """End it, in one of the next turns of the watch loop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class WatchLoop:
    """What runs in the thread, from the first coroutine on.  `renew_lease` is that of all answer tables' counters.

    `began` is called in the thread when it begins.  The `thread` may have started already; it ends with this.
    """

    def __init__(
        self,
        renew_lease: Callable[[float], None],
        watchdog: Watchdog,
        clock: Callable[[], float] = time.monotonic,
        *,
        began: Callable[[], None] = lambda: None,
        thread: WatchThread | None = None,
    ) -> None:
        self._began = began
        self._renew_lease = renew_lease
        self._watchdog = watchdog
        self._clock = clock
        self._lease_end = inf
        self._tasks = Tasks()
        self._has_begun = threading.Event()
        self._thread = thread or WatchThread()
        self._waiting: asyncio.Task[None] | None = None  # of the main loop

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> WatchTask:
        """Run a coroutine until it is cancelled; from any thread.  What it raises is logged."""
        if not self._has_begun.is_set():
            self._thread.start()
            self._thread.call(self._begin)
            self._has_begun.wait()
        made = WatchTask(self._thread.loop)

        def begin() -> None:
            made.task = self._tasks.spawn(coro, name)

        self._thread.call(begin)
        return made

    def late(self, now: float) -> Awaitable[None] | None:
        """What to wait for before the store is read, for a query that came at `now`; called on the main loop.

        None while this loop turns, and for a query that has waited.
        """
        if now < self._lease_end or self._clock() - now >= PATIENCE:
            return None
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="late watch")
        return asyncio.shield(self._waiting)

    async def close(self) -> None:
        """End all that runs here, and the thread; called on the main loop."""
        if not self._thread.has_started:
            return
        self._thread.end()
        if not await asyncio.to_thread(self._thread.join, END_TIMEOUT):
            log.error("what watches the cluster did not end within %g s", END_TIMEOUT)

    def beaten(self, now: float, in_time: bool) -> None:
        """Renew the lease, if the turn was in time."""
        if in_time:
            self._lease_end = now + LEASE
            self._renew_lease(self._lease_end)

    def _begin(self) -> None:
        if shorten_slice is not None:
            shorten_slice()  # an event need not wait until other threads have had their own slice
        self._watchdog.listen("watch", self.beaten)
        self._began()
        self._thread.at_end.append(self._end)
        self._has_begun.set()

    async def _end(self) -> None:
        await self._tasks.cancel()
        self._watchdog.forget("watch")

    async def _wait(self) -> None:
        for _ in range(round(PATIENCE / POLL)):
            if self._clock() < self._lease_end:
                break
            await asyncio.sleep(POLL)
