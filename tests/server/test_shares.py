"""How many of the process's descriptors each kind of connection may have."""

from __future__ import annotations

import pytest

from hsdns.metrics import Registry
from hsdns.server.shares import Shares
from tests.server.test_places import Connection


@pytest.mark.parametrize(
    ("limit", "clients", "pages"),
    [
        pytest.param(16, 16, 8, id="less-than-works"),
        pytest.param(64, 24, 16, id="few"),
        pytest.param(512, 192, 128, id="half-of-it"),
        pytest.param(1024, 384, 256, id="soft-limit"),
        pytest.param(4096, 2048, 512, id="hard-limit"),
        pytest.param(20_000, 8192, 512, id="many"),
        pytest.param(1 << 20, 8192, 512, id="container"),
    ],
)
def test_shares(limit: int, clients: int, pages: int) -> None:
    shares = Shares.of(limit)
    assert (shares.clients.most, shares.pages.most) == (clients, pages)
    assert limit < 64 or clients + pages <= limit * 3 // 4, "the rest is for upstreams and files"


def test_metrics() -> None:
    metrics, shares = Registry(), Shares.of(64)
    shares.count_in(metrics)
    for _ in range(shares.pages.most + 1):
        connection = Connection()
        shares.pages.take(connection, connection, "192.0.2.1")
    metrics.fold()
    labels = ("clients",), ("pages",)
    assert metrics.gauge("hsdns_connections", "").values == dict(zip(labels, (0, 16), strict=True))
    assert metrics.gauge("hsdns_connections_max", "").values == dict(
        zip(labels, (24, 16), strict=True)
    )
    assert metrics.counter("hsdns_connections_closed_total", "").values == dict(
        zip(labels, (0, 1), strict=True)
    )
