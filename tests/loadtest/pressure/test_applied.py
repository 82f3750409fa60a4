import math
from collections.abc import Callable

import pytest

from hsdns.cluster.programming import programming_in
from hsdns.metrics import Registry
from loadtest.apiserver.objects import trigger_time
from loadtest.pressure.applied import METRIC, NONE, Applied, between, read


@pytest.fixture
def scraped() -> Callable[[dict[str, list[float]]], dict[float, float]]:
    """The buckets of a server that has applied changes after some seconds each, by kind of Service."""
    metrics = Registry()
    observe = programming_in(metrics)

    def scraped(durations: dict[str, list[float]]) -> dict[float, float]:
        for kind, listed in durations.items():
            for seconds in listed:
                observe(kind, trigger_time(1e9), 1e9 + seconds)
        metrics.fold()
        return read(metrics.to_text().decode())

    return scraped


@pytest.mark.parametrize(
    ("durations", "applied"),
    [
        ({"headless": [0.003] * 99 + [0.05]}, Applied(100, 0.004, 0.064)),
        ({"headless": [0.003] * 98 + [0.05] * 2}, Applied(100, 0.064, 0.064)),
        ({"headless": [0.003] * 99, "cluster_ip": [0.017]}, Applied(100, 0.004, 0.032)),
        ({"headless": [0.003, 86_400.0]}, Applied(1, 0.004, 0.004)),
        ({}, NONE),
    ],
)
def test_changes_after_the_start(
    durations: dict[str, list[float]],
    applied: Applied,
    scraped: Callable[[dict[str, list[float]]], dict[float, float]],
) -> None:
    before = scraped({"headless": [3.0, 86_400.0]})
    assert between(before, scraped(durations)) == applied


def test_a_server_without_the_metric() -> None:
    assert read("# TYPE up gauge\nup 1\n") == {}
    assert between({}, {}) == Applied(0, math.inf, math.inf)
    assert METRIC.startswith("coredns_kubernetes_")
