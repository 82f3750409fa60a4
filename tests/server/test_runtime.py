"""What plugins get from the edges."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsdns.chain import Request
from hsdns.cluster.freshness import NoCounters
from hsdns.eager import Wait, start
from hsdns.metrics import Registry
from hsdns.server import runtime
from hsdns.server import runtime as module
from hsdns.server.runtime import (
    MAX_TURN,
    FileLooks,
    Look,
    Queries,
    ServerRuntime,
    Tasks,
    Turn,
    take_apart,
)
from hsdns.wire.message import Reply
from tests.support.coroutines.event_loops import until
from tests.support.plugins.corefiles import assembled
from tests.support.plugins.requests import make_request
from tests.support.servers.function_processor import processor
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


def make_runtime(corefile: str = "") -> ServerRuntime:
    return ServerRuntime(
        assembled(corefile, interfaces=lambda: {"lo": ["127.0.0.1", "::1"]}),
        Registry(),
        NoCounters(),
    )


async def test_error_of_a_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "hsdns"):

        async def fail() -> None:
            raise ValueError("broken")

        tasks = Tasks()
        tasks.spawn(fail(), "cluster watch")
        await until(lambda: not len(tasks), "the task at its end")
    assert [record.getMessage() for record in caplog.records] == [
        "cluster watch ended with an error"
    ]
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize(("bind", "servers", "addresses"), values(TABLES, "local addresses"))
def test_local_addresses(
    bind: str, servers: list[str], addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "own_addresses", lambda: ["192.0.2.7"])
    runtime = make_runtime(f". {{\n{bind}\nwhoami\n}}")
    assert runtime.local_addresses(servers) == addresses


async def test_resolve_asks_the_listener_of_the_request() -> None:
    def answering(rcode: int) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Reply:
            return Reply(rcode=rcode)

        return answer

    runtime = make_runtime()
    runtime.processors = {
        "dns://:53": processor(answering(0)),
        "dns://:54": processor(answering(3)),
    }

    assert [
        (await runtime.resolve(make_request("example.org", server=server))).rcode
        for server in ("dns://:53", "dns://:54")
    ] == [0, 3]


# --- tasks that outlive a configuration ---


async def test_queries_that_wait_without_a_task_are_counted_and_cancelled() -> None:
    delivered: list[object] = []

    async def wait_for(wait: Wait[str], queries: Queries) -> str:
        queries.waits.add(wait)
        try:
            return await wait
        finally:
            queries.waits.discard(wait)

    queries = Queries()
    waits: list[Wait[str]] = [Wait(), Wait()]
    for wait in waits:
        start(wait_for(wait, queries), delivered.append, queries.spawn)
    queries.spawn(asyncio.sleep(60))
    assert len(queries) == 3
    waits[1].succeed("reply")
    assert len(queries) == 2
    await queries.cancel()
    assert len(queries) == 0
    assert delivered == ["reply", None]


async def test_long_work_lets_others_run_in_between() -> None:
    now, ran = 0.0, list[float]()

    async def other() -> None:
        while True:
            ran.append(now)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    turn = Turn(lambda: now)
    for _ in range(6):
        now += MAX_TURN * 0.6
        await turn.end_if_long()
    task.cancel()
    assert [round(each / MAX_TURN, 1) for each in ran] == [1.2, 2.4, 3.6]


async def test_a_long_list_is_freed_in_several_turns() -> None:
    """Each item takes as long as a turn may; the loop turns after each second one."""
    now = 0.0
    parts: list[Any] = [object() for _ in range(6)]
    left: list[int] = []

    def clock() -> float:
        nonlocal now
        now += MAX_TURN
        return now

    async def look() -> None:
        while parts:
            left.append(len(parts))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await take_apart(parts, clock)
    await looking
    assert left == [4, 2]


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
