from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hsdns.server import runtime
from hsdns.server.runtime import FileLooks, Look, Tasks


def scripted(monkeypatch: pytest.MonkeyPatch, periods: int) -> tuple[list[float], list[int]]:
    """Let `periods` intervals pass at once; return the intervals, and how many looks each call of a thread had."""
    slept: list[float] = []
    calls: list[int] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > periods:
            raise asyncio.CancelledError

    async def in_thread(function: Callable[[list[Look]], object], looks: list[Look]) -> object:
        calls.append(len(looks))
        return function(looks)

    monkeypatch.setattr(runtime, "sleep", sleep)
    monkeypatch.setattr(asyncio, "to_thread", in_thread)
    return slept, calls


def look_all(looks: list[tuple[float, Look]]) -> None:
    async def run() -> None:
        tasks = Tasks()
        files = FileLooks()
        for seconds, look in looks:
            files.add(seconds, look, tasks.spawn)
        await tasks.wait()

    asyncio.run(run())


def test_one_thread_looks_for_all_of_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    slept, calls = scripted(monkeypatch, 1)
    look_all([(5.0, lambda: None)] * 2300)
    assert (slept, calls) == ([5.0, 5.0], [2300])


def test_what_is_found_is_used_and_what_follows_is_done_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scripted(monkeypatch, 1)
    done: list[str] = []

    def rebuild() -> None:
        done.append("rebuilt")

    def changed(name: str) -> Look:
        def use() -> Callable[[], None]:
            done.append(name)
            return rebuild

        return lambda: use

    def broken() -> None:
        raise OSError("no such device")

    look_all([(5.0, changed("a")), (5.0, broken), (5.0, lambda: None), (5.0, changed("b"))])
    assert done == ["a", "b", "rebuilt"]
    assert [record.message for record in caplog.records] == ["a file cannot be looked at"]
