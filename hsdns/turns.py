"""Turns of the event loop: one in the middle of a long computation, and those that a timer waits before it gives up.

Path: handlers and query.py call another_turn() between the pieces of what takes milliseconds; eager.py, which steps the
coroutine, then goes on with it in a task, after all that is ready.  Connections and queries that end when nothing
arrives in time have a Timer.  What connections to API servers and upstreams share for TLS stands here, too.
Rule 1: no event loop is needed for a turn: what is yielded to it is what asyncio.sleep(0) yields.
Rule 2: when a time is over, what has arrived may not have been read, because the loop was busy, or because it runs
        timers before it reads, as uvloop does.  So a Timer lets it read once more.
"""

from __future__ import annotations

import ssl
import types
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

# Records made in one turn, or by one call in C, whose end other threads wait for.  Thousands take milliseconds.
AT_ONCE: Final = 256

T = TypeVar("T")


@types.coroutine
def another_turn() -> Generator[None, None, None]:
    """Go on in the next turn of the loop."""
    yield


@contextmanager
def unless_cancelled() -> Iterator[None]:
    """Ignore that something awaited was cancelled, such as a task that this has cancelled; not if this task is."""
    import asyncio  # noqa: PLC0415 - callers without a loop do not need it

    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except asyncio.CancelledError:
        if task is not None and task.cancelling() > before:
            raise


async def listed(items: Iterable[T]) -> list[T]:
    """Return a list of some items that are made while it is, AT_ONCE of them in each turn."""
    rest = iter(items)
    found: list[T] = []
    while piece := [*islice(rest, AT_ONCE)]:
        found += piece
        if len(piece) < AT_ONCE:
            break
        await another_turn()
    return found


class Timer:
    """Calls a function after some seconds, when the loop has then read what has arrived; unless it is cancelled."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, call: Callable[[], object]
    ) -> None:
        self._loop, self._call = loop, call
        self._handle: asyncio.Handle = loop.call_later(seconds, self._wait)

    def cancel(self) -> None:
        """Do not call it."""
        self._handle.cancel()

    def _wait(self) -> None:
        # asyncio calls this one before what the next reading finds, uvloop before it reads.
        self._handle = self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._handle = self._loop.call_soon(self._call)


class ClientContext(ssl.SSLContext):
    """Encodes a name in ASCII itself: ssl imports a codec for all scripts first, half a megabyte."""

    def wrap_bio(self, *ends: Any, **options: Any) -> ssl.SSLObject:
        """Begin a connection to the server that `server_hostname` names."""
        name = options.get("server_hostname")
        if isinstance(name, str) and name.isascii():
            options["server_hostname"] = name.encode()
        return super().wrap_bio(*ends, **options)
