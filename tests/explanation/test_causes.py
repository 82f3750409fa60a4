"""The first line where a name exists."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import Object, Service, ServicePort, ServiceSpec
from tests.support.cluster.explained import explain
from tests.support.cluster.objects import endpoint_slice, meta, namespace, pod, service

DB = [
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 ready=false"),
]
WEB = service("shop/web", "10.96.0.1")


@pytest.mark.parametrize(
    ("question", "objects", "cause"),
    [
        ("db.shop.svc.cluster.local.", DB, "1 of 2 endpoints of headless Service shop/db; 1 left out (not ready)"),
        ("db-0.db.shop.svc.cluster.local.", DB, "endpoint db-0 of Service shop/db; 1 left out (not ready)"),
        ("db.shop.svc.cluster.local. AAAA", DB,
         "Service shop/db has no AAAA record: none of its ready endpoints has an IPv6 address"),
        ("db.shop.svc.cluster.local.", [service("shop/db"), endpoint_slice("shop/db-6", "db", "fd00::1", address_type="IPv6")],
         "Service shop/db has no A record: none of its ready endpoints has an IPv4 address"),
        ("db.shop.svc.cluster.local. SRV", [service("shop/db"), endpoint_slice("shop/db-1", "db", "10.0.0.1", ports=("http/TCP/",))],
         "Service shop/db has no SRV record: its EndpointSlices have no port number"),
        ("db.shop.svc.cluster.local. MX", DB, "Service shop/db has no MX record"),
        ("web.shop.svc.cluster.local.", [Service(meta("shop/web"), ServiceSpec(ports=[ServicePort(80)]))],
         "Service shop/web has no A record: its cluster IPs are none"),
        ("db.shop.svc.cluster.local.", [*DB, endpoint_slice("shop/db-2", "db", "10.0.0.1 host=db-0")],
         "1 of 3 endpoints of headless Service shop/db; 2 left out (not ready and others)"),
        ("web.shop.svc.cluster.local.", [WEB],
         "the cluster IP of Service shop/web, which is not headless: its pods are not in the answer"),
        ("web.shop.svc.cluster.local. AAAA", [WEB], "Service shop/web has no AAAA record: its cluster IPs are 10.96.0.1"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="a.test")],
         "CNAME to a.test, the externalName of Service shop/web"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="Web.shop.svc.cluster.local")],
         "Service shop/web is of type ExternalName, and its externalName is its own name"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="db.shop.svc.cluster.local")],
         "Service shop/web is of type ExternalName, and db.shop.svc.cluster.local has no such record in the cluster"),
        ("10-0-0-1.shop.pod.cluster.local.", [], "the address is in the name itself, whether a pod has it or not (`pods insecure`)"),
        ("10-0-0-1.shop.pod.cluster.local. AAAA", [], "the address in the name has no AAAA record"),
        ("1.0.96.10.in-addr.arpa. PTR", [WEB], "1 PTR record of the cluster IP of Service shop/web"),
        ("1.0.0.10.in-addr.arpa. PTR", DB, "1 PTR record of an endpoint in EndpointSlice shop/db-1"),
        ("cluster.local. SOA", [], "1 SOA record of the zone itself"),
        ("shop.svc.cluster.local.", [], "the name exists, but has no A record"),
    ],
)  # fmt: skip
def test_first_line(question: str, objects: list[Object], cause: str) -> None:
    assert (
        explain(question, namespace("shop"), *objects, pods="insecure").cause == f"NOERROR: {cause}"
    )


def test_a_verified_pod() -> None:
    found = explain("10-0-0-1.shop.pod.cluster.local.", namespace("shop"), pod("shop/x", "10.0.0.1"), pods="verified")  # fmt: skip
    assert found.cause == "NOERROR: a pod of the namespace has the address (`pods verified`)"
