"""Progress messages on standard error, with the seconds since the start.

Path: created by cli.py; used by every part.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_EVERY = 2.0  # seconds between two lines about the same count


class Progress:
    """Writes lines; `clock` gives seconds."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._start = clock()
        self._logged = self._start
        self._total = self._done = self._began = 0.0

    def log(self, sentence: str) -> None:
        """Write a line."""
        self._logged = self._clock()
        print(f"[{self._logged - self._start:7.1f} s] {sentence}", file=self._out, flush=True)

    def count(self, what: str, done: int, total: int) -> None:
        """Write the progress of a long step, at most every two seconds."""
        if self._clock() - self._logged >= _EVERY:
            self.log(f"{what}: {done:,} of {total:,}")

    def begin(self, total: float) -> None:
        """Begin weighted steps, up to a total."""
        self._total, self._done, self._began = max(total, 1e-9), 0.0, self._clock()

    def step(self, what: str, weight: float = 1.0) -> None:
        """Write the step that begins now, with the remaining time, at most every two seconds."""
        now, share = self._clock(), self._done / self._total
        if now - self._logged >= _EVERY:
            left = f", {(now - self._began) * (1 / share - 1):.0f} s left" if share > 0.02 else ""
            self.log(f"{share:4.0%}{left}  {what}")
        self._done += weight

    def pause(self, seconds: float, why: str) -> None:
        """Write the reason, and wait."""
        if seconds >= _EVERY:
            self.log(f"{why}: {seconds:.0f} s")
        time.sleep(max(0.0, seconds))
