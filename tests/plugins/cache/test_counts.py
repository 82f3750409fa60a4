from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from hsdns.chain import Request
from hsdns.metrics import Registry
from hsdns.plugins.cache.store import Counts, Store
from tests.support.plugins.requests import make_request

REQUEST = make_request("www.example.org.", server="dns://:1053").replace(view="inside")
LABELS = ("dns://:1053", "a.,b.", "inside")


def a_store(entries: int, octets: int) -> Store:
    """A store of this size."""
    found = Store(1024, Random(0))
    found._entries, found.octets = dict.fromkeys(range(entries)), octets  # type: ignore[assignment,arg-type]
    return found


def values(registry: Registry) -> dict[str, dict[tuple[str, ...], float]]:
    """Every metric that has a value, without the common part of its name."""
    return {
        metric.name.removeprefix("coredns_cache_"): {
            labels: value
            for labels, value in metric.values.items()
            if isinstance(value, int | float)
        }
        for metric in registry
        if metric.values
    }


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(lambda counts, request: None, {}, id="nothing"),
        pytest.param(
            lambda counts, request: counts.count_lookup(request, None),
            {"requests_total": {LABELS: 1}, "misses_total": {LABELS: 1}},
            id="miss",
        ),
        pytest.param(
            lambda counts, request: counts.count_lookup(request, "denial"),
            {
                "requests_total": {LABELS: 1},
                "hits_total": {("dns://:1053", "denial", "a.,b.", "inside"): 1},
            },
            id="hit",
        ),
        pytest.param(
            lambda counts, request: counts.count_prefetch(request),
            {"prefetch_total": {LABELS: 1}},
            id="prefetch",
        ),
        pytest.param(
            lambda counts, request: counts.count_stale(request),
            {"served_stale_total": {LABELS: 1}},
            id="stale",
        ),
        pytest.param(
            lambda counts, request: counts.count_stored(
                request.server, request.view, "success", 3, a_store(7, 900), a_store(0, 0)
            ),
            {
                "evictions_total": {("dns://:1053", "success", "a.,b.", "inside"): 3},
                "entries": {
                    ("dns://:1053", "success", "a.,b.", "inside"): 7,
                    ("dns://:1053", "denial", "a.,b.", "inside"): 0,
                },
                "hsdns_cache_bytes": {
                    ("dns://:1053", "success", "a.,b.", "inside"): 900,
                    ("dns://:1053", "denial", "a.,b.", "inside"): 0,
                },
            },
            id="stored",
        ),
        pytest.param(
            lambda counts, request: counts.add("dns://:53", "success", 3, 2),
            {
                "requests_total": {("dns://:53", "a.,b.", ""): 5},
                "misses_total": {("dns://:53", "a.,b.", ""): 2},
                "hits_total": {("dns://:53", "success", "a.,b.", ""): 3},
            },
            id="many",
        ),
        pytest.param(
            lambda counts, request: counts.add("dns://:53", "success", 0, 0),
            {"requests_total": {("dns://:53", "a.,b.", ""): 0}},
            id="none",
        ),
    ],
)
def test_counts(
    count: Callable[[Counts, Request], None],
    expected: dict[str, dict[tuple[str, ...], float]],
) -> None:
    registry = Registry()
    count(Counts(registry, "a.,b."), REQUEST)
    assert values(registry) == expected


def test_the_metrics_of_coredns_are_there() -> None:
    registry = Registry()
    Counts(registry, ".")
    assert {metric.name for metric in registry} - {"hsdns_cache_bytes"} == {
        f"coredns_cache_{name}"
        for name in (
            *("requests_total", "misses_total", "hits_total", "evictions_total", "entries"),
            *("prefetch_total", "served_stale_total", "drops_total"),
        )
    }
