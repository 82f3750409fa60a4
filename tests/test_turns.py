"""Turns of the event loop in the middle of a computation, and before a timer gives up."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hsdns.turns import AT_ONCE, Timer, listed
from tests.support.coroutines import event_loops
from tests.support.coroutines.eager import turns
from tests.support.coroutines.event_loops import busy


@pytest.mark.parametrize(
    ("items", "others"), [(0, 0), (AT_ONCE - 1, 0), (AT_ONCE, 1), (AT_ONCE + 1, 1), (3 * AT_ONCE - 1, 2)]
)  # fmt: skip
def test_a_list_is_made_in_turns(items: int, others: int) -> None:
    assert turns(listed(iter(range(items)))) == ([*range(items)], others)


@pytest.mark.parametrize("loop", event_loops.LOOPS)
async def test_timer_comes_after_what_has_arrived(loop: str) -> None:
    """Uvloop would call what is due before it reads."""
    seen: list[str] = []
    near, far = socket.socketpair()
    with near, far:
        running = asyncio.get_running_loop()
        over = asyncio.Event()

        def end() -> None:
            seen.append("over")
            over.set()

        near.setblocking(False)
        running.add_reader(near, lambda: seen.append(near.recv(9).decode()))

        def meanwhile() -> None:
            far.send(b"data")
            Timer(running, 0.0, end)
            Timer(running, 0.0, lambda: seen.append("cancelled")).cancel()

        await busy(meanwhile)
        await over.wait()
        running.remove_reader(near)
    assert seen == ["data", "over"]
