"""Causes of an absence that lie in the endpoints: the first line for each."""

from __future__ import annotations

import pytest
from msgspec import structs

from hsdns.cluster.objects import Object, Service
from hsdns.explanation.candidates import PIECE, Owner, of_address, of_endpoints
from hsdns.explanation.scene import ClusterObjects, Scene
from tests.support.cluster.explained import explain, explained, named_pod
from tests.support.cluster.objects import endpoint_slice, meta, namespace, service

SHOP = namespace("shop")
DB = service("shop/db")
NAME = "db.shop.svc.cluster.local."
PODS = [named_pod("shop/db-0", hostname="db-0", subdomain="other"), named_pod("shop/db-1", subdomain="db"),
        named_pod("shop/db-2"), named_pod("shop/db-3", hostname="db-3")]  # fmt: skip
PARTS = [endpoint_slice("shop/db-1", "db", *(f"10.0.0.{i} pod=db-{i}" for i in range(4)))]


def selecting(labels: dict[str, str]) -> Service:
    return structs.replace(DB, spec=structs.replace(DB.spec, selector=labels))


@pytest.mark.parametrize(
    ("question", "objects", "cause"),
    [
        (NAME, [DB], "Service shop/db has no endpoints: it has no selector and no EndpointSlice"),
        (NAME, [selecting({"name": "x"}), named_pod("shop/x-0", labels={"app": "x"})],
         "Service shop/db has no endpoints: its selector name=x matches no pod; pod x-0 has app=x"),
        (NAME, [selecting({"app": "x"}), named_pod("shop/x-0", labels={"app": "x"})],
         "Service shop/db has no endpoints: pod x-0, which its selector matches, has no address"),
        (NAME, [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 pod=db-0 ready=false"), named_pod("shop/db-0", reason="ContainersNotReady")],
         "0 of 1 endpoints of Service shop/db are ready (pod condition Ready is False: ContainersNotReady); "
         "publishNotReadyAddresses is false"),
        (f"db-0.{NAME}", [DB, *PARTS, *PODS],
         "Pod shop/db-0 has subdomain other, so its name is below Service other; the Service asked is db"),
        (f"db-1.{NAME}", [DB, *PARTS, *PODS], "Pod shop/db-1 has subdomain db but no hostname, so it has no name of its own"),
        (f"db-2.{NAME}", [DB, *PARTS, *PODS], "Pod shop/db-2 has neither hostname nor subdomain, so it has no name of its own"),
        (f"db-3.{NAME}", [DB, *PARTS, *PODS], "Pod shop/db-3 has a hostname but no subdomain, so it has no name of its own"),
        (f"db-9.{NAME}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0")],
         'Service shop/db has no endpoint named db-9; did you mean "db-0"?'),
        (f"db-0.{NAME}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0 ready=false")],
         "endpoint db-0 of Service shop/db is not ready; publishNotReadyAddresses is false"),
        (f"_http._tcp.{NAME}", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1", ports=["/TCP/80"])],
         "the port names differ: Service shop/db has port http/TCP; EndpointSlice db-1 has port (unnamed)/TCP"),
        ("1.0.0.10.in-addr.arpa. PTR", [DB, endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false")],
         "endpoint 10.0.0.1 of EndpointSlice shop/db-1 is not ready"),
        ("9.0.0.10.in-addr.arpa. PTR", [DB], "no Service has the address as its cluster IP, and no ready endpoint has it"),
    ],
)  # fmt: skip
def test_first_line(question: str, objects: list[Object], cause: str) -> None:
    assert explain(question, SHOP, *objects).cause == f"NXDOMAIN: {cause}"


def test_an_annotation_that_has_no_effect() -> None:
    annotated = structs.replace(
        meta("shop/db"),
        annotations={"service.alpha.kubernetes.io/tolerate-unready-endpoints": "true"},
    )
    part = endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false")
    found = explain(NAME, SHOP, structs.replace(DB, metadata=annotated), part)
    assert "tolerate-unready-endpoints has no effect" in found.cause


def test_only_endpoints_with_the_address_are_changed() -> None:
    part = endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false", "10.0.0.2 ready=false")
    scene = Scene.of([SHOP, DB, part])
    (found,) = of_address(bytes((10, 0, 0, 2)), scene, ClusterObjects([]))
    assert found.needed == "endpoint 10.0.0.2 is ready"


def test_others_run_between_endpoints() -> None:
    part = endpoint_slice("shop/db-1", "db", *(f"10.0.0.{i}" for i in range(10 * PIECE)))
    replay, scene, kept, qname, _ = explained(f"db-9.{NAME}", SHOP, DB, part)
    parsed = replay.block.answers.lookup.parse(qname, replay.zone)
    assert parsed is not None
    found = list(of_endpoints(parsed, scene, kept, Owner.of_service(DB), replay))
    assert found[:10] == [None] * 10
    assert [each.place for each in found if each is not None] == ["Service shop/db"]
