"""Checks files for changes, for the plugins of a configuration.

Path: runtime.py passes the functions given to look_every() to this module; it runs them in a thread of asyncio.
Rule: one call of a thread runs all checks with the same interval.  If thousands of blocks each used a thread at the
      same moment, they would block the loop, and their threads would hold the interpreter lock, for half a second.
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
    """The file checks of one configuration."""

    def __init__(self) -> None:
        self._looks: dict[float, list[Look]] = {}

    def add(self, seconds: float, look: Look, spawn: Spawn) -> None:
        """Call `look` in a thread every `seconds`.

        The function that it returns is called on the loop, and then each function that any of these calls returned,
        once.
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
            # In one iteration of the loop: no query sees a new file before the answer tables know of it.
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
