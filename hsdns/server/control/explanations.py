"""Prepares explanations for pages: imports the code, and divides its work into short pieces.

Path: explain.py, top/causes.py -> here -> server/explaining.py.
Rule 1: the code is imported on first use, because it needs dnspython and few servers explain anything.  The import
        takes 0.2 s and runs in a thread, so that the loop answers misses meanwhile.
Rule 2: between two steps the loop answers queries.  After LONGEST the thread sleeps, because a thread that answers
        queries waits for a CPU about as long as this one has used it without a break.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Final

from hsdns.explanation.observed import Pause
from hsdns.server.runtime import Turn

LONGEST: Final = 0.0001  # seconds of work without a break
REST: Final = 0.001  # seconds of a break: the shortest possible timer of the event loop
_CODE: Final = "hsdns.server.explaining"
_imported: set[str] = set()


async def import_explaining() -> None:
    """Import the code of explanations, unless it is imported already."""
    if _CODE not in _imported:
        await asyncio.to_thread(import_module, _CODE)
        _imported.add(_CODE)


def resting(clock: Callable[[], float]) -> Pause:
    """Return the function that an explanation awaits between its steps; `clock` gives monotonic seconds."""
    return Turn(clock, LONGEST, REST).end_if_long
