"""Looks at files that may have changed, for the plugins of a configuration.

Path: runtime.py hands what a plugin gives to look_every() to this; the thread is one of asyncio's.
Rule: all that is looked at in one interval is looked at in one call of a thread.  Thousands of blocks that each ask a
      thread at the same moment would hold the loop, and the threads the interpreter, for half a second.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import sleep
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("hsdns.server")

After = Callable[[], None]
Use = Callable[[], After | None]
Look = Callable[[], Use | None]
Spawn = Callable[[Coroutine[Any, Any, Any], str], object]


class FileLooks:
    """The looks of one configuration."""

    def __init__(self) -> None:
        self._looks: dict[float, list[Look]] = {}

    def add(self, seconds: float, look: Look, spawn: Spawn) -> None:
        """Call `look` in a thread every `seconds`, what it returns on the loop, and once what any of those return.

        `spawn` runs a coroutine until the configuration stops.
        """
        if seconds in self._looks:
            self._looks[seconds].append(look)
        else:
            self._looks[seconds] = [look]
            spawn(self._run(self._looks[seconds], seconds), f"files every {seconds:g}s")

    async def _run(self, looks: list[Look], seconds: float) -> None:
        while True:
            await sleep(seconds)
            found = await asyncio.to_thread(_look_at_all, looks)
            # In one turn: no query sees a new file before the answer tables know of it.
            for after in dict.fromkeys(use() for use in found):
                if after is not None:
                    after()


def _look_at_all(looks: list[Look]) -> list[Use]:
    found = []
    for look in tuple(looks):
        try:
            use = look()
        except Exception:
            log.exception("a file cannot be looked at")
        else:
            if use is not None:
                found.append(use)
    return found
