"""The upstreams of forward."""

from __future__ import annotations

import asyncio

import pytest

from hsdns.metrics import TIME_BUCKETS
from hsdns.plugins.forward import Forward
from hsdns.server.control.top import DURATIONS, Upstreams, median
from tests.server.control.top.looked import Looked

FORWARD = ".:53 {\nforward example.org 192.0.2.1 192.0.2.2\nforward . 192.0.2.1:53\n}\n"


def test_upstreams() -> None:
    looked = Looked(FORWARD)
    (forward,) = [each for each in looked.server.configuration.plugins if isinstance(each, Forward)]
    asyncio.run(forward.start(looked.server.runtime))
    durations = looked.metrics.histogram(DURATIONS, "", TIME_BUCKETS, ("proxy_name", "to", "rcode"))
    durations.observe(0.5, ("forward", "192.0.2.1:53", "NOERROR"))
    forward.routes[0].upstreams[0].failed = 7
    upstreams = Upstreams(looked.door)
    for rcode in ("NOERROR", "NXDOMAIN"):
        durations.observe(0.0003, ("forward", "192.0.2.1:53", rcode))
    durations.observe(0.5, ("forward", "192.0.2.9:53", "NOERROR"))
    forward.routes[0].upstreams[0].failed += 1
    forward.routes[1].upstreams[0].failed += 2
    looked.now += 2
    assert upstreams.take() == [
        {"address": "192.0.2.1:53", "per_second": 1.0, "failures": 3, "p50_ms": 0.375},
        {"address": "192.0.2.2:53", "per_second": 0.0, "failures": 0, "p50_ms": None},
    ]
    forward.routes[0].upstreams[0].failed = forward.routes[1].upstreams[0].failed = 1
    looked.now += 1
    assert [each["failures"] for each in upstreams.take()] == [2, 0], (
        "counted from 0 after a reload"
    )


@pytest.mark.parametrize(
    ("buckets", "milliseconds"),
    [({}, None), ({0: 2}, 0.125), ({2: 4}, 0.75), ({0: 1, 3: 3}, 1.333), ({16: 1}, 8192.0)],
)
def test_median(buckets: dict[int, int], milliseconds: float | None) -> None:
    counts = [float(buckets.get(place, 0)) for place in range(len(TIME_BUCKETS) + 1)]
    assert median(counts) == milliseconds
