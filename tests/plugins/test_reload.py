from __future__ import annotations

import asyncio
from random import Random

import pytest

from hsdns.metrics import Registry
from hsdns.plugins import reload
from hsdns.plugins.reload import Reload, failures, show_version, versions
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up


def test_period_is_the_interval_plus_or_minus_half_of_the_jitter() -> None:
    random, plugin = Random(1), Reload(30, 10)
    periods = [plugin.period(random) for _ in range(1000)]
    assert 25 <= min(periods) < 25.5
    assert 34.5 < max(periods) <= 35


def test_checks_after_each_period(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == 3:
            raise asyncio.CancelledError
        slept.append(seconds)

    monkeypatch.setattr(reload, "sleep", sleep)
    runtime = FakeRuntime()
    finish(set_up(Reload, "reload 20s 0s").start(runtime))
    assert runtime.reloads == 0
    with pytest.raises(asyncio.CancelledError):
        finish(runtime.spawned["reload"])
    assert (slept, runtime.reloads) == ([20.0] * 3, 3)


def test_metrics() -> None:
    runtime = FakeRuntime()
    finish(Reload().start(runtime))
    runtime.spawned["reload"].close()
    assert failures(runtime.metrics).values == {(): 0}
    assert versions(runtime.metrics).values == {}


def test_only_the_last_digest_is_exported() -> None:
    metrics = Registry()
    show_version(metrics, "aa")
    show_version(metrics, "bb")
    failures(metrics).inc()
    text = metrics.to_text().decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'coredns_reload_version_info{hash="sha512",value="bb"} 1.0',
        "coredns_reload_failed_total 1.0",
    ]
