"""What has endpoints, and what is added to it."""

from __future__ import annotations

from hsdns.cluster.objects import ObjectMeta, ServiceImport
from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.selector import Selector
from hsdns.explanation.candidates import Owner, selected
from hsdns.explanation.scene import Scene
from tests.support.cluster.objects import service

DB = service("shop/db")
PARSED = ParsedName(SVC, b"shop", b"db", endpoint=b"x", cluster=b"east")


def test_an_endpoint_more() -> None:
    found = Scene.of([DB])
    (part,) = Owner.of_service(DB).with_endpoint(PARSED._replace(cluster=b""), None, found).slices
    assert part.metadata.labels == {"kubernetes.io/service-name": "db"}
    assert [each.hostname for each in part.endpoints or ()] == ["x"]
    shared = Owner.of_import(ServiceImport(ObjectMeta("db", "shop")))
    (part,) = shared.with_endpoint(PARSED, Selector.from_text("tier=front"), found).slices
    assert part.metadata.labels == {
        "multicluster.kubernetes.io/service-name": "db",
        "multicluster.kubernetes.io/source-cluster": "east",
        "tier": "front",
    }


def test_labels_that_a_selector_wants() -> None:
    selector = Selector.from_text("a,b in (y,x),c!=z,!d")
    assert selected(selector, {"e": "1"}) == {"e": "1", "a": "true", "b": "x"}
    assert selector.matches(selected(selector))
    assert selected(None) == {}
