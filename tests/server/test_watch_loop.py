"""The thread that follows the cluster: what runs there, how it ends, and the lease that it renews."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hsdns.metrics import Registry
from hsdns.server.watch_loop import LEASE, PATIENCE, Watchdog, WatchLoop
from hsdns.server.watch_thread import WatchThread
from tests.support.coroutines.event_loops import LOOPS, until


class Scripted:
    """A watch loop whose clock a test sets; the lease that it has given is `lease`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lease: list[float] = []
        self.loop = WatchLoop(
            self.lease.append, Watchdog(Registry(), lambda: self.now), lambda: self.now
        )


@asynccontextmanager
async def running() -> AsyncIterator[WatchLoop]:
    made = WatchLoop(lambda end: None, Watchdog(Registry()))
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("loop", LOOPS)
async def test_what_is_spawned_runs_in_another_thread_until_it_is_cancelled(loop: str) -> None:
    seen: dict[str, str] = {}

    async def follow(name: str) -> None:
        seen[name] = threading.current_thread().name
        try:
            await asyncio.Event().wait()
        finally:
            seen[name] = "ended"

    async with running() as watch_loop:
        one = watch_loop.spawn(follow("one"), "one")
        watch_loop.spawn(follow("two"), "two")
        await until(lambda: len(seen) == 2, "both begin")
        assert seen == {"one": "watch", "two": "watch"}
        one.cancel()
        await until(lambda: seen["one"] == "ended", "the first one ends")
        assert seen["two"] == "watch"
    assert seen == {"one": "ended", "two": "ended"}
    one.cancel()  # without effect


async def test_an_error_is_logged_and_ends_only_its_task(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):

        async def fail() -> None:
            raise ValueError("no such cluster")

        went_on: list[bool] = []

        async def go_on() -> None:
            went_on.append(True)

        async with running() as watch_loop:
            watch_loop.spawn(fail(), "the source")
            await until(lambda: bool(caplog.messages), "the error")
            watch_loop.spawn(go_on(), "another")
            await until(lambda: bool(went_on), "the other one")
    assert caplog.messages == ["the source ended with an error"]


# --- the lease ---


def test_a_turn_in_time_renews_the_lease() -> None:
    scripted = Scripted()
    assert scripted.loop.late(1e9) is None, "before the first turn there is no lease"
    for now, in_time in ((1.0, True), (1.5, False), (1.6, True)):
        scripted.loop.beaten(now, in_time)
    assert scripted.lease == [1.0 + LEASE, 1.6 + LEASE]
    assert scripted.loop.late(1.6 + LEASE - 0.001) is None


@pytest.mark.parametrize("turns", [True, False])
async def test_queries_wait_for_the_next_turn_but_not_for_ever(
    turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = Scripted()
    scripted.loop.beaten(0.0, True)
    scripted.now = 5.0
    slept: list[float] = []
    sleep = asyncio.sleep

    async def tick(seconds: float) -> None:
        slept.append(seconds)
        if turns and len(slept) == 3:
            scripted.loop.beaten(scripted.now, True)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", tick)
    waiting = [scripted.loop.late(scripted.now) for _ in range(3)]
    answered = 0
    for each in waiting:
        assert each is not None
        await each
        answered += 1
    assert answered == 3
    assert sum(slept) == pytest.approx(0.06 if turns else PATIENCE), "all wait together"
    assert (scripted.loop.late(scripted.now) is None) is turns


def test_a_query_waits_once_however_many_handlers_read_the_store() -> None:
    scripted = Scripted()
    scripted.loop.beaten(0.0, True)
    scripted.now = 5.0 + PATIENCE
    assert scripted.loop.late(5.0) is None, "its time is over"


def test_calls_and_end() -> None:
    thread, seen, called = WatchThread(), list[str](), threading.Event()
    assert not thread.has_started

    def call() -> None:
        seen.append(threading.current_thread().name)
        called.set()

    async def first() -> None:
        seen.append("first")

    async def second() -> None:
        seen.append("second")

    thread.start()
    thread.start()
    thread.call(call)
    assert called.wait(20)
    thread.at_end += [first, second]
    thread.end()
    assert thread.join(20)
    assert seen == ["watch", "second", "first"]
