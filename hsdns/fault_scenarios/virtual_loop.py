"""An event loop whose time advances only when all tasks wait: an hour of a scenario takes milliseconds.

Path: play.py runs a scenario on one.
Rule: ready tasks run; if there are none, the time jumps to the next timer.  So every run is the same.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class Stuck(RuntimeError):
    """All tasks wait, and no timer is set."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins with 0."""

    def __init__(self) -> None:
        self._passed = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Seconds since it was made."""
        return self._passed

    def pass_time(self, seconds: float) -> None:
        """Advance the time, for the selector."""
        self._passed += seconds


class _Selector(selectors.BaseSelector):
    """Waits only for the loop's own descriptors, through which threads wake the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._real = selectors.DefaultSelector()
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = self._real.select(0)
        if found or timeout == 0:
            return found
        if timeout is None:
            raise Stuck("nothing can happen any more, and something waits for it")
        self._loop.pass_time(timeout)
        return []

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()
