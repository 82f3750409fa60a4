"""Run a coroutine eagerly: at once and without a task, until it waits for something.

Path: around query.py: server/udp.py and tcp.py call start() for every message; no other function steps a chain.
Stepping costs about 0.2 us where a task costs 12 to 22 us (CPython 3.11, uvloop and asyncio).
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")
Spawn = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


def start(coro: Coroutine[Any, Any, T], deliver: Callable[[T | None], None], spawn: Spawn) -> None:
    """Run `coro`; give its result to `deliver`, at once if it never waits, else from a task made by `spawn`.

    An error that the coroutine raises before it waits is raised here.  A later one is raised in the task, and `deliver`
    gets None, so that the caller's count of queries in progress is right also when a reload cancels the task.
    """
    try:
        waiting_for = coro.send(None)
    except StopIteration as stop:
        deliver(stop.value)
        return
    spawn(_go_on(coro, waiting_for, deliver))


async def _go_on(
    coro: Coroutine[Any, Any, T], waiting_for: Any, deliver: Callable[[T | None], None]
) -> None:
    try:
        result = await _resume(coro, waiting_for)
    except BaseException:
        deliver(None)
        raise
    deliver(result)


@types.coroutine
def _resume(coro: Coroutine[Any, Any, T], waiting_for: Any) -> Generator[Any, Any, T]:
    """Wait for what the first step waits for, then step the coroutine as `await` would."""
    while True:
        try:
            sent = yield waiting_for
        except GeneratorExit:
            coro.close()
            raise
        except BaseException as error:  # the coroutine handles cancellation, too
            step: Callable[[Any], Any] = coro.throw
            argument: Any = error
        else:
            step, argument = coro.send, sent
        try:
            waiting_for = step(argument)
        except StopIteration as stop:
            result: T = stop.value
            return result
