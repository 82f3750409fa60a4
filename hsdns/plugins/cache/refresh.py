"""Waits for a refresh with a timeout.

Path: plugins/cache refreshes an entry with this under `serve_stale ... verify TIMEOUT`.
Rule: the waiting side needs no task, so that it works in the chain of any query; the refresh runs in a task and goes
      on after the timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_for(
    work: Coroutine[Any, Any, T | None],
    seconds: float,
    spawn: Callable[[Coroutine[Any, Any, None], str], object],
    name: str,
) -> T | None:
    """Spawn a coroutine and wait for its result; return None after the timeout."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T | None] = loop.create_future()

    def finish(found: T | None) -> None:
        if not result.done():
            result.set_result(found)

    async def run() -> None:
        found = None
        try:
            found = await work
        finally:
            finish(found)

    spawn(run(), name)
    timer = loop.call_later(seconds, finish, None)
    try:
        return await result
    finally:
        timer.cancel()
