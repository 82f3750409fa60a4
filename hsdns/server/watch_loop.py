"""The thread that follows the cluster, with an event loop of its own, and the lease of the answer table.

Path: runtime.py spawns here what watches (plugins/kubernetes/watch.py): sources, stores, snapshots.
Rule 1: nothing but that runs here, so that no query, log line, reload or transfer is in front of an event; and after
        an event, for half a millisecond at a time, the recomputation of the replies that it has invalidated
        (answer_tables.py).
Rule 2: what depends on the store is valid in the answer table for LEASE seconds after a turn of this loop
        (fastpath/versions.py).  A turn that comes late does not count: what has arrived meanwhile comes first.
Rule 3: queries that are not answered from the table wait for the next turn that counts, about PATIENCE seconds in all;
        then they are answered from the last known state, as while the API server is away.  So do zone transfers, and
        cached replies that hold only while the cluster does not have the name.

The watchdog detects loops that are blocked, this one and the main one, counts these stalls, and logs the blocking code:
Rule 1: a loop sets a timer every BEAT seconds.  A timer that is more than STALL late is a stall, which is counted once:
        by the watchdog's thread, or by the timer itself if no Python thread could run meanwhile.
Rule 2: the stack is logged while the stall lasts, at most once in LOG_PAUSE for each loop.
Rule 3: reading the first list of a large cluster stalls loops at each start.  Until settle() is called the stack is
        logged only of a stall of STUCK seconds; one line says afterwards how long the longest ones were.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from types import FrameType
from typing import Any, Final

from hsdns.fastpath import shorten_slice
from hsdns.metrics import Counter, Registry
from hsdns.server.runtime import Tasks
from hsdns.server.watch_thread import WatchThread

BEAT: Final = 0.1  # seconds
STALL: Final = 0.25  # seconds
LOOK: Final = 0.1  # seconds between two checks of all loops
LOG_PAUSE: Final = 60.0  # seconds
STUCK: Final = 10.0  # seconds
log = logging.getLogger("hsdns.server")


class Pulse:
    """The timer of one loop, to be made in the loop's thread; `now` is monotonic seconds."""

    def __init__(self, name: str, counter: Counter, now: float) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self._counter = counter
        self._due = now + BEAT
        self._is_counted = False
        self._counting = threading.Lock()
        counter.inc((name,), 0)

    def beat(self, now: float) -> bool:
        """Record that the timer has run; return whether it was in time."""
        is_late = self.check(now) > 0
        with self._counting:
            self._due, self._is_counted = now + BEAT, False
        return not is_late

    def check(self, now: float) -> float:
        """The seconds for which the loop has been blocked, 0.0 if that is no stall; counts a stall once."""
        with self._counting:
            late = now - self._due
            if late <= STALL:
                return 0.0
            if not self._is_counted:
                self._is_counted = True
                self._counter.inc((self.name,))
            return late


class Watchdog:
    """Checks the pulses from a thread of its own."""

    def __init__(
        self,
        metrics: Registry,
        clock: Callable[[], float] = time.monotonic,
        frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
    ) -> None:
        self._counter = metrics.counter("hsdns_loop_stalls_total", ("loop",))
        self._clock = clock
        self._frames = frames
        self._pulses: list[Pulse] = []
        self._logged: dict[str, float] = {}
        self._before: dict[str, float] = {}  # by loop: its longest stall before it was settled
        self._settled_at = inf
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start checking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def listen(self, name: str, beaten: Callable[[float, bool], None] | None = None) -> None:
        """Run the timer of the running loop until it ends; `beaten` gets the time of each run and if it was in time."""
        loop, pulse = asyncio.get_running_loop(), Pulse(name, self._counter, self._clock())

        def beat() -> None:
            now = self._clock()
            in_time = pulse.beat(now)
            loop.call_later(BEAT, beat)
            if beaten is not None:
                beaten(now, in_time)

        loop.call_later(BEAT, beat)
        self.add(pulse)

    def add(self, pulse: Pulse) -> None:
        """Check a loop, too."""
        self._pulses.append(pulse)

    @property
    def is_settled(self) -> bool:
        """Whether settle() was called."""
        return self._settled_at < inf

    def settle(self) -> None:
        """From now on, what is read at the start has been read."""
        self._settled_at = self._clock()

    def forget(self, name: str) -> None:
        """Stop checking a loop that ends."""
        self._pulses = [pulse for pulse in self._pulses if pulse.name != name]

    def look(self) -> None:
        """Check all loops once."""
        now, is_over = self._clock(), self.is_settled
        for pulse in self._pulses:
            late = pulse.check(now)
            if late and now - late < self._settled_at:
                is_over = False
                self._before[pulse.name] = max(late, self._before.get(pulse.name, 0.0))
                if late < STUCK:
                    continue
            if late and now - self._logged.get(pulse.name, -LOG_PAUSE) >= LOG_PAUSE:
                frame = self._frames().get(pulse.thread)
                stack = "".join(traceback.format_stack(frame)) if frame is not None else "no frame"
                self._logged[pulse.name] = now
                log.warning(
                    "the event loop %s has not turned for %.2f s; it is in:\n%s",
                    pulse.name,
                    late + BEAT,
                    stack.rstrip(),
                )
        if is_over and self._before:
            loops = (f"{name} for {late + BEAT:.2f} s" for name, late in self._before.items())
            log.info(
                "until the cluster had been read, event loops did not turn: %s", ", ".join(loops)
            )
            self._before.clear()

    def _run(self) -> None:
        while not self._is_over.wait(LOOK):
            self.look()


LEASE: Final = 1.0  # seconds
PATIENCE: Final = 2.0  # seconds
POLL: Final = 0.02  # seconds between looks while queries wait
END_TIMEOUT: Final = 10.0  # seconds for what runs here to end: a snapshot is saved once more


@dataclass(eq=False)
class WatchLoop:
    """What runs in the thread, from the first coroutine on.  `renew_lease` is that of all answer tables' counters.

    `began` is called in the thread when it begins.  The `thread` may have started already; it ends with this.
    """

    renew_lease: Callable[[float], None]
    watchdog: Watchdog
    clock: Callable[[], float] = time.monotonic
    began: Callable[[], None] = lambda: None
    thread: WatchThread = field(default_factory=WatchThread)

    def __post_init__(self) -> None:
        self._lease_end = inf
        self._tasks = Tasks()
        self._has_begun = threading.Event()
        self._waiting: asyncio.Task[None] | None = None  # of the main loop

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Future[Any]:
        """Run a coroutine until it is cancelled; from any thread.  What it raises is logged."""
        if not self._has_begun.is_set():
            self.thread.start()
            self.thread.call(self._begin)
            self._has_begun.wait()
        return asyncio.run_coroutine_threadsafe(self._run(coro, name), self.thread.loop)

    def late(self, now: float) -> Awaitable[None] | None:
        """What to wait for before the store is read, for a query that came at `now`; called on the main loop.

        None while this loop turns, and for a query that has waited.
        """
        if now < self._lease_end or self.clock() - now >= PATIENCE:
            return None
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.get_running_loop().create_task(self._wait(), name="late watch")
        return asyncio.shield(self._waiting)

    async def close(self) -> None:
        """End all that runs here, and the thread; called on the main loop."""
        if not self.thread.has_started:
            return
        self.thread.end()
        if not await asyncio.to_thread(self.thread.join, END_TIMEOUT):
            log.error("what watches the cluster did not end within %g s", END_TIMEOUT)

    def beaten(self, now: float, in_time: bool) -> None:
        """Renew the lease, if the turn was in time."""
        if in_time:
            self._lease_end = now + LEASE
            self.renew_lease(self._lease_end)

    async def _run(self, coro: Coroutine[Any, Any, Any], name: str) -> Any:
        return await self._tasks.spawn(coro, name)

    def _begin(self) -> None:
        if shorten_slice is not None:
            shorten_slice()  # an event need not wait until other threads have had their own slice
        self.watchdog.listen("watch", self.beaten)
        self.began()
        self.thread.at_end.append(self._end)
        self._has_begun.set()

    async def _end(self) -> None:
        await self._tasks.cancel()
        self.watchdog.forget("watch")

    async def _wait(self) -> None:
        for _ in range(round(PATIENCE / POLL)):
            if self.clock() < self._lease_end:
                break
            await asyncio.sleep(POLL)
