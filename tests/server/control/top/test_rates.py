"""Queries a second, from the metrics or from the tap."""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.fastpath.tap import SAMPLE
from hsdns.server.control.top import Rates
from tests.server.control.top.looked import KUBERNETES, Looked

COUNTED = KUBERNETES.replace("kubernetes", "prometheus\nkubernetes")
REQUEST = ("dns://:53", "cluster.local.", "", "udp", "1")
RESPONSE = ("dns://:53", "cluster.local.", "")


def counted(looked: Looked, name: str, labels: tuple[str, ...], count: int) -> None:
    metric: Any = next(each for each in looked.metrics if each.name == name)
    metric.inc(labels, count)


def test_from_the_metrics() -> None:
    looked = Looked(COUNTED)
    rates = Rates(looked.door)
    lookups = looked.metrics.counter("hsdns_table_lookups_total", "", ("server", "result"))
    for count in (1000, 30):
        counted(looked, "coredns_dns_requests_total", (*REQUEST, "A"), count)
        counted(
            looked, "coredns_dns_requests_total", ("dns://:53", "dropped", "", "tcp", "2", "A"), 10
        )
        counted(looked, "coredns_dns_responses_total", (*RESPONSE, "NXDOMAIN", ""), 20)
        counted(looked, "coredns_dns_responses_total", (*RESPONSE, "NOERROR", ""), 20)
        for result in ("hit", "region", "miss"):
            lookups.inc(("dns://:53", result), 10)
        if count == 1000:
            rates.take()
            looked.now += 2
    assert rates.take() == {
        "queries_per_second": 20.0,
        "table_share": 0.5,
        "by_type": {"A": 20.0},
        "by_rcode": {"NOERROR": 10.0, "NXDOMAIN": 10.0},
        "exact": True,
    }  # fmt: skip
    looked.now += 1
    assert rates.take() == {
        "queries_per_second": 0.0, "table_share": None, "by_type": {}, "by_rcode": {}, "exact": True,
    }  # fmt: skip


@pytest.mark.parametrize("times", [1, 3])
def test_from_the_tap(times: int) -> None:
    """The number of queries is exact, also where only a share of them is taken."""
    looked = Looked()
    with looked.queries.looking():
        rates = Rates(looked.door)
        looked.asked("web.shop.svc.cluster.local.", count=times * SAMPLE)
        looked.now += 1
        found = rates.take()
    assert found == {
        "queries_per_second": times * SAMPLE, "table_share": 0.0, "by_type": {"A": times * SAMPLE},
        "by_rcode": {"NOERROR": times * SAMPLE}, "exact": times == 1,
    }  # fmt: skip


def test_one_block_that_is_not_counted_is_enough() -> None:
    looked = Looked(COUNTED + "example.org:53 {\nwhoami\n}\n")
    with looked.queries.looking():
        rates = Rates(looked.door)
        looked.asked("web.shop.svc.cluster.local.")
        looked.now += 1
        assert rates.take()["queries_per_second"] == 1.0
