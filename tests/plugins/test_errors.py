from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from hsdns.plugins import errors
from hsdns.plugins.errors import Errors
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

TIMEOUT = unwritten(Rcode.SERVFAIL, "read udp 10.0.0.1:53: i/o timeout")
FAILED = unwritten(Rcode.SERVFAIL, "Failed to list")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "hsdns.plugin.errors")
    return caplog


def lines(logged: pytest.LogCaptureFixture) -> list[str]:
    return [f"[{record.levelname}] {record.getMessage()}" for record in logged.records]


class Consolidating:
    """An Errors that has started, with its timers in the test's hands."""

    def __init__(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        monkeypatch.setattr(errors, "sleep", sleep)
        self.runtime = FakeRuntime()
        self.plugin = set_up(Errors, text)
        finish(self.plugin.start(self.runtime))

    def fail(self, found: Reply, times: int = 1) -> None:
        for _ in range(times):
            finish(self.plugin.handle(make_request("a.example.org."), next_with(found)))

    def fire(self) -> None:
        timers: list[Coroutine[Any, Any, Any]] = list(self.runtime.spawned.values())
        self.runtime.spawned.clear()
        for timer in timers:
            finish(timer)

    def close(self) -> None:
        for timer in self.runtime.spawned.values():
            timer.close()


SINGLE = "plugin/errors: 2 a.example.org. A: read udp 10.0.0.1:53: i/o timeout"
PLAIN = 'errors {\n consolidate 5m ".* i/o timeout$" warning\n consolidate 30s "^Failed .+"\n}'
SHOWN = 'errors {\n consolidate 2s "timeout$" info show_first\n}'


@pytest.mark.parametrize(
    ("text", "times", "before", "after"),
    [
        pytest.param(
            PLAIN,
            3,
            [],
            ["[WARNING] plugin/errors: 3 errors like '.* i/o timeout$' occurred in last 5m0s"],
            id="counted",
        ),
        pytest.param(
            PLAIN,
            1,
            [],
            ["[WARNING] plugin/errors: 1 errors like '.* i/o timeout$' occurred in last 5m0s"],
            id="one",
        ),
        pytest.param(
            SHOWN,
            3,
            [f"[INFO] {SINGLE}"],
            [
                f"[INFO] {SINGLE}",
                "[INFO] plugin/errors: 3 errors like 'timeout$' occurred in last 2s",
            ],
            id="show-first",
        ),
        pytest.param(SHOWN, 1, [f"[INFO] {SINGLE}"], [f"[INFO] {SINGLE}"], id="show-first-alone"),
    ],
)
@pytest.mark.parametrize("end", ["timer", "stop"])
def test_consolidate(
    text: str,
    times: int,
    before: list[str],
    after: list[str],
    end: str,
    logged: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Consolidating(text, monkeypatch)
    case.fail(TIMEOUT, times)
    assert lines(logged) == before
    if end == "timer":
        case.fire()
    else:
        finish(case.plugin.stop())
        case.close()
    assert lines(logged) == after


def test_each_pattern_has_its_own_period(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Consolidating(PLAIN, monkeypatch)
    case.fail(TIMEOUT, 2)
    case.fail(FAILED)
    case.fire()
    assert case.slept == [300.0, 30.0]
    assert [record.levelno for record in logged.records] == [logging.WARNING, logging.ERROR]


def test_a_period_begins_anew_with_the_next_error(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Consolidating(PLAIN, monkeypatch)
    case.fail(FAILED)
    case.fire()
    assert case.runtime.spawned == {}
    case.fail(FAILED, 2)
    case.fire()
    assert lines(logged) == [
        "[ERROR] plugin/errors: 1 errors like '^Failed .+' occurred in last 30s",
        "[ERROR] plugin/errors: 2 errors like '^Failed .+' occurred in last 30s",
    ]


def test_after_stop_each_error_is_logged_at_the_level_of_its_pattern(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Consolidating(PLAIN, monkeypatch)
    finish(case.plugin.stop())
    case.fail(TIMEOUT)
    assert lines(logged) == [f"[WARNING] {SINGLE}"]


def test_a_real_timer_flushes(logged: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        runtime = FakeRuntime()
        plugin = set_up(Errors, 'errors {\n consolidate 1ms "timeout"\n}')
        await plugin.start(runtime)
        await plugin.handle(make_request("a.example.org."), next_with(TIMEOUT))
        assert lines(logged) == []
        await asyncio.wait_for(runtime.tasks["errors timeout"], 30)

    asyncio.run(run())
    assert lines(logged) == ["[ERROR] plugin/errors: 1 errors like 'timeout' occurred in last 1ms"]
