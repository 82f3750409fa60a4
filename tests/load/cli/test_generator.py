from __future__ import annotations

import time

import pytest

from hsdns.apiserver import access
from hsdns.load.cli import load as load_part
from hsdns.load.cli.load import Generator, find_generator
from hsdns.load.cluster.job import INDEX
from hsdns.load.errors import LoadError
from hsdns.load.schedule import Portion
from tests.load.cluster.test_api import STARTED, api

NOON = 1_767_268_800.0  # when the Job of test_job has started


@pytest.fixture(autouse=True)
def _clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 s after the start of the Job; the monotonic clock is at 500 s."""
    monkeypatch.setattr(time, "time", lambda: NOON + 20)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 500 * 10**9)


def test_without_a_job() -> None:
    assert find_generator(Portion(), "", "") == Generator(Portion(), 0)
    assert find_generator(Portion(1, 4), "+30s", "") == Generator(Portion(1, 4), 530 * 10**9)
    assert find_generator(Portion(), "2026-01-01T12:00:25Z", "").begin == 505 * 10**9
    with pytest.raises(LoadError, match="that was at 2026-01-01T12:00:00Z"):
        find_generator(Portion(), "2026-01-01T12:00:00Z", "")


@pytest.mark.sockets
def test_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod has its index and begins as long after the start of the Job, whenever it was started itself."""
    monkeypatch.setenv(INDEX, "3")
    with api([(200, STARTED), (200, STARTED), (200, {})]) as (found, asked):
        monkeypatch.setattr(load_part, "_api", lambda: found)
        generator = find_generator(Portion(), "+45s", "load")
        assert (generator.portion, generator.begin) == (Portion(3, 4), 525 * 10**9)
        assert find_generator(Portion(), "", "load").begin == 540 * 10**9
        said = generator.put(b"{}")
    assert said == "the report is in the ConfigMap load-3 of the namespace load"
    assert asked[-1][1].startswith("/api/v1/namespaces/load/configmaps/load-3?")


def test_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INDEX, "0")
    monkeypatch.delenv(access.HOST, raising=False)
    with pytest.raises(
        LoadError, match="-job: not in a cluster: KUBERNETES_SERVICE_HOST is not set"
    ):
        find_generator(Portion(), "", "load")
