from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from hsdns.plugins.python.module import Turns, place_of
from tests.support.coroutines.event_loops import run


class Clock:
    """Time that goes on only where a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


Body = Callable[[Clock, Turns], Coroutine[Any, Any, Any]]


def turns_of(body: Body) -> tuple[Turns, Any]:
    """Await a body through Turns, in a task beside others that take time, too."""
    clock = Clock()

    async def test() -> tuple[Turns, Any]:
        turns = Turns(clock)
        result = await turns.own(body(clock, turns))
        return turns, result

    return run(test())


async def other(clock: Clock) -> str:
    clock.work(5)
    await asyncio.sleep(0)
    clock.work(5)
    return "reply"


async def waits(clock: Clock, turns: Turns) -> str:
    clock.work(0.25)
    await asyncio.sleep(0)
    clock.work(0.5)
    await asyncio.create_task(other(clock))
    clock.work(0.125)
    return "done"


async def asks(clock: Clock, turns: Turns) -> Any:
    clock.work(0.25)
    reply = await turns.elsewhere(other(clock))
    clock.work(0.5)
    return reply


async def asks_beside(clock: Clock, turns: Turns) -> Any:
    asked = asyncio.gather(turns.elsewhere(other(clock)), turns.elsewhere(other(clock)))
    clock.work(0.5)
    return (await asked)[0]


@pytest.mark.parametrize(
    ("body", "longest", "result"),
    [(waits, 0.5, "done"), (asks, 0.5, "reply"), (asks_beside, 0.5, "reply")],
)
def test_the_longest_turn(body: Body, longest: float, result: str) -> None:
    turns, found = turns_of(body)
    assert (turns.longest, found) == (longest, result)


def test_exceptions_and_timeouts_pass() -> None:
    async def raises(clock: Clock, turns: Turns) -> None:
        clock.work(1)
        raise KeyError("no")

    async def catches(clock: Clock, turns: Turns) -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            clock.work(2)
            return "late"
        return "never"

    with pytest.raises(KeyError):
        turns_of(raises)
    turns, result = turns_of(catches)
    assert (turns.longest, result) == (2, "late")


def test_closing_closes_the_call() -> None:
    ended = []

    async def hangs() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    async def outer(call: Awaitable[Any]) -> None:
        await call

    driven = outer(Turns(Clock()).own(hangs()))
    driven.send(None)
    driven.close()
    assert ended == [True]


def test_the_line_of_a_call_that_is_over() -> None:
    async def body() -> int:
        await asyncio.sleep(0)
        return 1  # here

    async def test() -> tuple[Turns, types.FrameType]:
        call = body()
        assert isinstance(call, types.CoroutineType)
        frame = call.cr_frame
        assert frame is not None
        turns = Turns(map(float, count()).__next__, frame)
        await turns.own(call)
        return turns, frame

    turns, frame = run(test())
    assert place_of(frame) == f"{__file__}:{body.__code__.co_firstlineno + 2}"
    assert turns.place == f"{__file__}:{body.__code__.co_firstlineno + 1}"
