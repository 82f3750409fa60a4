"""Waits for a refresh with a timeout.

Path: plugins/cache refreshes an entry with this under `serve_stale ... verify TIMEOUT`.
Rule: the waiting side needs no task, so that it works in the chain of any query; the refresh runs in a task and goes
      on after the timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def wait_for(
    work: Coroutine[Any, Any, T | None],
    seconds: float,
    spawn: Callable[[Coroutine[Any, Any, Any], str], Awaitable[Any]],
    name: str,
) -> T | None:
    """Spawn a coroutine and wait for its result; return None after the timeout, or if it fails."""
    running = asyncio.ensure_future(spawn(work, name))
    done, _ = await asyncio.wait([running], timeout=seconds)
    is_found = done and not running.cancelled() and running.exception() is None
    return running.result() if is_found else None
