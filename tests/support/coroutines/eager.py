"""Run a coroutine without an event loop, and fail where it waits.

A test of a handler that uses finish() proves that the handler does no I/O.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def finish(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; raise AssertionError if it suspends."""
    try:
        waiting_for = coro.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coro.close()
    raise AssertionError(f"the coroutine waits for {waiting_for!r}, but it must not wait")


def turns(coro: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """Run a coroutine that waits for nothing but other turns of the loop; return its result and their number."""
    count = 0
    while True:
        try:
            waiting_for = coro.send(None)
        except StopIteration as stop:
            return stop.value, count
        assert waiting_for is None, "anything but another turn"
        count += 1
