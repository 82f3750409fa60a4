"""What an answer depends on, and asking again."""

from __future__ import annotations

from hsdns.explanation.scene import ClusterObjects
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.support.cluster.explained import explained
from tests.support.cluster.objects import endpoint_slice, namespace, service

SHOP = namespace("shop")
WEB = service("shop/web", "10.96.0.1")
QUESTION = "web.shop.svc.cluster.local."


def test_a_scene_has_the_objects_of_the_name_only() -> None:
    other = endpoint_slice("shop/db-1", "db", "10.0.0.1")
    own = endpoint_slice("shop/web-1", "web", "10.0.0.2")
    found = explained(QUESTION, SHOP, WEB, other, own, namespace("x"))
    assert [each.metadata.name for each in found.scene.slices] == ["web-1"]
    assert [each.metadata.name for each in found.scene.namespaces] == ["shop"]


def test_asking_again() -> None:
    replay, scene, _, qname, _ = explained(QUESTION, SHOP, WEB)
    assert replay.exists(scene, qname, RRType.A)
    assert [each.rdata for each in replay.records(scene, qname, RRType.A)] == [
        bytes((10, 96, 0, 1))
    ]
    changed = scene.with_objects(service("shop/web", "10.96.0.2"))
    assert replay.records(changed, qname, RRType.A)[0].rdata == bytes((10, 96, 0, 2))
    assert not replay.exists(scene.with_options(namespaces=("x",)), qname, RRType.A)
    assert replay.records(scene, Name.from_text("x.shop.svc.cluster.local."), RRType.A) == ()


def test_objects_of_an_address() -> None:
    own = endpoint_slice("shop/web-1", "web", "10.0.0.2")
    kept = ClusterObjects([SHOP, WEB, own, service("shop/db", "10.96.0.9")])
    for address in (bytes((10, 96, 0, 1)), bytes((10, 0, 0, 2))):
        assert [each.metadata.name for each in kept.of_address(address)][:2] == ["shop", "web"]


def test_one_slice_in_place_of_another() -> None:
    replay, scene, *_ = explained("db.shop.svc.cluster.local.", SHOP, service("shop/db"))
    qname, trial = Name.from_text("db.shop.svc.cluster.local."), replay.trial(scene)
    parts = [
        endpoint_slice("shop/db-1", "db", "10.0.0.1"),
        endpoint_slice("shop/db-1", "db", "10.0.0.2"),
        endpoint_slice("shop/db-2", "db", "10.0.0.3"),
    ]
    found = [trial.records_with(each, qname, RRType.A) for each in parts]
    assert [[rr.rdata[3] for rr in records] for records in found] == [[1], [2], [3]]
