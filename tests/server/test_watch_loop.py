"""The thread that follows the cluster, its lease, and stalls of event loops."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hsdns.metrics import Counter, Registry
from hsdns.server.watch_loop import (
    BEAT,
    LEASE,
    LOG_PAUSE,
    PATIENCE,
    STALL,
    Pulse,
    Watchdog,
    WatchLoop,
)
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


def counter() -> Counter:
    return Counter("hsdns_loop_stalls_total", ("loop",))


def stalls(counted: Counter, name: str = "main") -> float:
    return counted.values[(name,)]


class ScriptedDog:
    """A watchdog whose clock and frames a test sets; this thread stands for that of the loop."""

    def __init__(self, *, settled: bool = True) -> None:
        self.now = 0.0
        metrics = Registry()
        self.dog = Watchdog(
            metrics, lambda: self.now, lambda: {threading.get_ident(): sys._getframe()}
        )
        self.counted = metrics.counter("hsdns_loop_stalls_total", ("loop",))
        self.pulse = Pulse("main", self.counted, 0.0)
        self.dog.add(self.pulse)
        if settled:
            self.dog.settle()

    def look(self, now: float) -> None:
        self.now = now
        self.dog.look()


def test_the_stack_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    scripted = ScriptedDog()
    with caplog.at_level(logging.WARNING):
        scripted.look(BEAT + STALL)
        assert not caplog.messages
        scripted.look(1.0)
        scripted.look(2.0)
        scripted.pulse.beat(3.0)
        scripted.look(10.0)
        assert len(caplog.messages) == 1
        assert caplog.messages[0].startswith(
            "the event loop main has not turned for 1.00 s; it is in:\n"
        )
        assert "test_the_stack_is_logged_once_a_minute" in caplog.messages[0]
        scripted.look(1.0 + LOG_PAUSE)
        assert len(caplog.messages) == 2
    assert stalls(scripted.counted) == 2


SETTLED = "until the cluster had been read, event loops did not turn: main for"


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        pytest.param("look 0.5, beat 0.5, look 1.8, beat 1.8, look 2.4, settle 2.4, beat 2.4, look 2.4", [f"{SETTLED} 1.30 s"], id="one line for all"),
        pytest.param("look 0.5, settle 1.0, look 1.8, beat 1.8, look 1.9", [f"{SETTLED} 1.80 s"], id="settled within a stall"),
        pytest.param("look 0.1, beat 0.1, settle 0.2, look 0.2", [], id="no stall"),
        pytest.param("look 5.0, look 10.2, look 10.3, beat 10.3", ["the event loop main has not turned for 10.20 s; it is in:"], id="one that may not end"),
        pytest.param("settle 0.0, look 0.1, beat 0.1, look 1.1", ["the event loop main has not turned for 1.00 s; it is in:"], id="later"),
    ],
)  # fmt: skip
def test_the_first_list_is_no_reason_for_a_stack(
    steps: str, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    scripted = ScriptedDog(settled=False)
    with caplog.at_level(logging.INFO):
        for step in steps.split(", "):
            name, at = step.split()
            scripted.now = float(at)
            if name == "beat":
                scripted.pulse.beat(scripted.now)
            else:
                getattr(scripted.dog, name)()
    assert [each.partition("\n")[0] for each in caplog.messages] == lines


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_loop_that_stands_still_is_noticed_by_the_thread(loop: str) -> None:
    metrics, noticed = Registry(), threading.Event()
    dog = Watchdog(metrics)
    counted = metrics.counter("hsdns_loop_stalls_total", ("loop",))
    beats: list[bool] = []
    dog.listen("main", lambda _, in_time: beats.append(in_time))
    dog.start()
    await until(lambda: beats == [True], "the first beat")
    original = dog.look

    def look() -> None:
        original()
        if stalls(counted):
            noticed.set()

    dog.look = look  # type: ignore[method-assign]
    assert noticed.wait(30), "this blocks the loop until the thread has counted it"
    await asyncio.sleep(0)
    await until(lambda: False in beats, "the late beat")
    assert stalls(counted) == 1
    dog.stop()
    dog.stop()
