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


@pytest.mark.parametrize(
    ("text", "interval", "jitter"),
    [
        pytest.param("reload", 30, 15, id="default"),
        pytest.param("reload 10s", 10, 5, id="interval-limits-jitter"),
        pytest.param("reload 2s", 2, 1, id="shortest"),
        pytest.param("reload 10s 3s", 10, 3, id="both"),
        pytest.param("reload 10s 9s", 10, 5, id="jitter-at-most-half"),
        pytest.param("reload 1m 0s", 60, 0, id="no-jitter"),
        pytest.param("reload 2s 1s", 2, 1, id="least-jitter"),
    ],
)
def test_setup(text: str, interval: float, jitter: float) -> None:
    plugin = set_up(Reload, text)
    assert (plugin.interval, plugin.jitter) == (interval, jitter)


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


def test_first_of_several_takes_effect() -> None:
    warnings: list[str] = []
    found = set_up(Reload, "reload 10s 2s\nreload 20s", warnings=warnings)
    assert found.interval == 10
    assert warnings == [
        'Corefile:3:1: this "reload" has no effect, the one at Corefile:2:1 counts, as in CoreDNS 1.14.7; remove one'
    ]
