"""Ask below for an entry that a client waits for, but not longer than it is told to.

Path: plugins/cache.py asks with this under `serve_stale ... verify TIMEOUT`.
Rule 1: what waits is no task, so that it may stand in the chain of any query; what asks is one, and goes on after the
        time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_for(
    asking: Coroutine[Any, Any, T | None],
    seconds: float,
    spawn: Callable[[Coroutine[Any, Any, None], str], object],
    name: str,
) -> T | None:
    """Spawn a coroutine and wait for its result; None where it comes later, or never."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T | None] = loop.create_future()

    def tell(found: T | None) -> None:
        if not result.done():
            result.set_result(found)

    async def ask() -> None:
        found = None
        try:
            found = await asking
        finally:
            tell(found)

    spawn(ask(), name)
    timer = loop.call_later(seconds, tell, None)
    try:
        return await result
    finally:
        timer.cancel()
