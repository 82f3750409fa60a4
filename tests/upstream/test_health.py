from __future__ import annotations

import asyncio

import pytest

from hsdns.upstream.health import Health, HealthCheck
from hsdns.wire.name import ROOT


def test_defaults() -> None:
    assert HealthCheck() == HealthCheck(0.5, True, ROOT)


@pytest.mark.parametrize(
    ("failures", "max_fails", "is_down"),
    [(0, 2, False), (2, 2, False), (3, 2, True), (99, 0, False), (1, 1, False), (2, 1, True)],
)
def test_is_down(failures: int, max_fails: int, is_down: bool) -> None:
    found = Health(0.5)
    found.failures = failures
    assert found.is_down(max_fails) == is_down


def test_probes_until_a_reply_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    results, seen, slept = [False, False, False, True], [], []

    async def probe() -> bool:
        seen.append((found.failures, found.is_probing))
        return results.pop(0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    found = Health(0.25)
    asyncio.run(found.probe_until_healthy(probe))
    assert seen == [(0, True), (1, True), (2, True), (3, True)]
    assert slept == [0.25] * 3
    assert (found.failures, found.is_probing) == (0, False)


def test_a_cancelled_run_may_begin_again() -> None:
    async def never() -> bool:
        await asyncio.get_running_loop().create_future()
        return True

    async def run() -> None:
        found = Health(0.5)
        task = asyncio.create_task(found.probe_until_healthy(never))
        await asyncio.sleep(0)
        assert found.is_probing
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not found.is_probing

    asyncio.run(run())
