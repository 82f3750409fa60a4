"""Changes of a scene, each alone."""

from __future__ import annotations

from hsdns.cluster.question import SVC, ParsedName
from hsdns.explanation import candidates as edits
from hsdns.explanation.scene import Scene
from tests.support.cluster.objects import endpoint_slice, service

DB = service("shop/db")
PART = endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false", "10.0.0.2 ready=false")
SCENE = Scene.of([DB, PART])
PARSED = ParsedName(SVC, b"shop", b"db", port=b"grpc", protocol=b"udp")


def test_endpoints_become_ready_one_by_one() -> None:
    (part,) = edits.all_ready((PART.endpoints or [])[:1], SCENE).slices
    assert [edits.is_ready(each) for each in part.endpoints or ()] == [True, False]


def test_a_hostname() -> None:
    first = (PART.endpoints or [])[0]
    (part,) = edits.with_hostname(first, "db-0", SCENE).slices
    assert [each.hostname for each in part.endpoints or ()] == ["db-0", None]


def test_ports() -> None:
    (part,) = edits.renamed_ports(PARSED, SCENE).slices
    assert edits.port_names(part.ports or ()) == "port grpc/UDP"
    assert edits.port_names(()) == "no ports"
    assert edits.asked_port(PARSED) == "port named grpc of protocol UDP"
    assert edits.service_port(PARSED).protocol == "UDP"


def test_a_service() -> None:
    changed = edits.with_service(DB, SCENE, external_name="a.test")
    (made,) = edits.as_headless(DB, changed).services
    assert (made.spec.cluster_ip, made.spec.external_name) == ("None", None)
    assert edits.headless_spec(PARSED).cluster_ip == "None"
