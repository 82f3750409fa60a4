"""Detects event loops that are blocked, counts these stalls, and logs the stack of the blocking code.

Path: lifecycle.py starts one for the process; the main loop and that of watch_loop.py have a Pulse each.
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
from collections.abc import Callable, Mapping
from math import inf
from types import FrameType
from typing import Final

from hsdns.metrics import Counter, Registry

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
        self._counter = metrics.counter(
            "hsdns_loop_stalls_total",
            "How often an event loop did not turn for 250 ms: main answers queries, watch follows the cluster.",
            ("loop",),
        )
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
