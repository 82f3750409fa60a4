"""The progress bar of a run, on standard error: the current step and the remaining time.

Path: run.py -> here.  A terminal gets one line that is overwritten; other outputs get a line every ten seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

_WIDTH: Final = 24
_EVERY: Final = {True: 0.1, False: 10.0}  # seconds between two lines, on a terminal and elsewhere


class ProgressBar:
    """Counts weighted steps; `clock` gives seconds."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._terminal = out.isatty()
        self._total = 1.0
        self._done = 0.0
        self._start = clock()
        self._written = float("-inf")
        self._length = 0  # of the line on the terminal

    def begin(self, total: float) -> None:
        """Start to count up to `total`."""
        self._total = max(total, 1e-9)
        self._done = 0.0
        self._start = self._clock()

    def step(self, what: str, weight: float = 1.0) -> None:
        """Show the step that begins now; add the `weight` of the previous one."""
        now = self._clock()
        if now - self._written >= _EVERY[self._terminal]:
            self._written = now
            self._write(line(self._done / self._total, now - self._start, what))
        self._done += weight

    def log(self, sentence: str) -> None:
        """Write a permanent line."""
        self._clear()
        print(sentence, file=self._out, flush=True)

    def end(self) -> None:
        """Remove the bar from a terminal."""
        self._clear()

    def _write(self, text: str) -> None:
        if not self._terminal:
            print(text, file=self._out, flush=True)
            return
        print("\r" + text.ljust(self._length), end="", file=self._out, flush=True)
        self._length = len(text)

    def _clear(self) -> None:
        if self._length:
            print("\r" + " " * self._length + "\r", end="", file=self._out, flush=True)
            self._length = 0


def line(share: float, elapsed: float, what: str) -> str:
    """Draw the bar for a share of 0 to 1 after `elapsed` seconds."""
    share = min(1.0, max(0.0, share))
    full = round(share * _WIDTH)
    left = f", {elapsed / share - elapsed:.0f} s left" if share > 0.02 else ""
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {share:4.0%}{left}  {what}"
