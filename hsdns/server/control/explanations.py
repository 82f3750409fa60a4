"""What a page that explains needs beside the queries: the code, and how its work is cut.

Path: explain.py, top/causes.py -> here -> server/explaining.py.
Rule 1: the code is for those who ask, as it needs dnspython, which few servers do.  To import it takes 0.2 s, so that
        is done in a thread: misses are answered meanwhile.
Rule 2: between two steps, queries are answered.  After LONGEST the thread rests, because a thread that answers queries
        waits for a processor about as long as this one has had it without a break.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Final

from hsdns.explanation.edges import Pause
from hsdns.server.runtime import Turn

LONGEST: Final = 0.0001  # seconds of work without a break
REST: Final = 0.001  # seconds of a break: the shortest that the event loop makes
_CODE: Final = "hsdns.server.explaining"
_imported: set[str] = set()


async def import_explaining() -> None:
    """Import what explains, unless that has been done."""
    if _CODE not in _imported:
        await asyncio.to_thread(import_module, _CODE)
        _imported.add(_CODE)


def resting(clock: Callable[[], float]) -> Pause:
    """What an explanation awaits between its steps; `clock` gives monotonic seconds."""
    return Turn(clock, LONGEST, REST).end_if_long
