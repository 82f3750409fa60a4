"""What became of each endpoint."""

from __future__ import annotations

import pytest

from tests.support.cluster.explained import explain, named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service

PARTS = (
    endpoint_slice(
        "shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.1", "10.0.0.2 pod=db-1 ready=false"
    ),
    endpoint_slice("shop/db-2", "db", "fd00::1", address_type="IPv6"),
    endpoint_slice("shop/db-3", "db", "10.0.0.3", ports=["grpc/TCP/90"]),
)
HEADLESS, CLUSTER_IP = service("shop/db"), service("shop/db", "10.96.0.1")
POD = named_pod("shop/db-1", reason="ContainersNotReady")
NOT_READY = "left out: not ready: pod condition Ready is False: ContainersNotReady"
OTHER = "left out: its name is another one"


@pytest.mark.parametrize(
    ("question", "service", "fates"),
    [
        ("db.shop.svc.cluster.local.", HEADLESS, ["answered", "left out: duplicate of an endpoint in db-1", NOT_READY,
                                                  "left out: its address is of the other family", "answered"]),
        ("db.shop.svc.cluster.local. AAAA", HEADLESS, ["left out: its address is of the other family"] * 2 + [NOT_READY,
                                                       "answered", "left out: its address is of the other family"]),
        ("_http._tcp.db.shop.svc.cluster.local. SRV", HEADLESS, ["answered", "answered", NOT_READY, "answered",
                                                                 "left out: its ports are grpc/TCP/90"]),
        ("db-0.db.shop.svc.cluster.local.", HEADLESS, ["answered", "left out: no hostname", NOT_READY,
                                                       "left out: no hostname", "left out: no hostname"]),
        ("db.shop.svc.cluster.local.", CLUSTER_IP, ["not asked for: the cluster IP is answered"] * 5),
    ],
)  # fmt: skip
def test_fates(question: str, service: object, fates: list[str]) -> None:
    found = explain(question, namespace("shop"), service, *PARTS, POD)  # type: ignore[arg-type]  # one of two
    assert found.service is not None
    told = [each for part in found.service.slices for each in part.endpoints]
    assert [f"{each.fate}: {each.why}" if each.why else each.fate for each in told] == fates
