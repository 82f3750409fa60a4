from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hsdns.plugins.cache.refresh import wait_for

tasks: list[asyncio.Task[Any]] = []


def spawn(coro: Coroutine[Any, Any, None], name: str) -> object:
    tasks.append(asyncio.create_task(coro, name=name))
    return None


async def found() -> str | None:
    await asyncio.sleep(0)
    return "found"


def test_in_time() -> None:
    assert asyncio.run(wait_for(found(), 5.0, spawn, "check")) == "found"


def test_too_late_it_goes_on() -> None:
    async def run() -> None:
        go_on, seen = asyncio.Event(), list[str]()

        async def later() -> str | None:
            await go_on.wait()
            seen.append("done")
            return "found"

        assert await wait_for(later(), 0.001, spawn, "check") is None
        assert seen == []
        go_on.set()
        await tasks[-1]
        assert seen == ["done"]

    asyncio.run(run())


def test_what_is_cancelled_tells_nothing() -> None:
    async def run() -> None:
        waiting = asyncio.create_task(wait_for(asyncio.Event().wait(), 5.0, spawn, "check"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[-1].cancel()
        assert await waiting is None

    asyncio.run(run())


def test_an_error_is_the_task_s() -> None:
    async def fails() -> str | None:
        raise ValueError("odd")

    async def run() -> None:
        assert await wait_for(fails(), 5.0, spawn, "check") is None
        with pytest.raises(ValueError, match="odd"):
            await tasks[-1]

    asyncio.run(run())
