"""Both event loops that the server runs on, and conditions that a test waits for with a deadline."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


DEADLINE = 30.0  # seconds; what is waited for takes milliseconds on an idle machine


_PAUSE = 0.002


def run(coro: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run a coroutine on one of the LOOPS."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(coro)


async def busy(meanwhile: Callable[[], object]) -> None:
    """Call a function as a callback of another socket, after which timers are due before the loop reads again."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    over = asyncio.Event()

    def block() -> None:
        loop.remove_reader(near)
        over.set()
        meanwhile()
        time.sleep(_PAUSE)  # so that a timer of no length is due by any clock

    with near, far:
        loop.add_reader(near, block)
        far.send(b"data")
        await over.wait()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; raise AssertionError, saying what did not happen."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE} s"
        await asyncio.sleep(_PAUSE)
