"""The objects that a store has of a question, with their resource versions."""

from __future__ import annotations

from hsdns.cluster.objects import EndpointSlice, Object, Synced
from hsdns.cluster.snapshot import stored_objects
from hsdns.cluster.source import Lead
from hsdns.cluster.store import Store, StoreSettings
from tests.support.cluster.objects import endpoint_slice, namespace, pod, service, upserts

LEAD = Lead((b"shop",), ((b"shop", b"db"),))
OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("other"),
    service("shop/db"),
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 ready=false"),
    pod("shop/x", "10.0.0.9"),
]


def store() -> Store:
    made = Store(StoreSettings(pods=True), wall=lambda: 0.0, warn=lambda sentence: None)
    made.apply([*upserts(*OBJECTS), Synced()])
    return made


def test_of_a_service() -> None:
    found = stored_objects(store(), LEAD)
    assert sorted(each.metadata.name for each in found) == ["db", "db-1", "shop"]
    (part,) = (each for each in found if isinstance(each, EndpointSlice))
    assert [each.addresses for each in part.endpoints or ()] == [["10.0.0.1"]]
    assert {each.key: each.resource_version for each in found} == {
        ("", "shop"): "",
        ("shop", "db"): "1",
        ("shop", "db-1"): "1",
    }


def test_of_an_address() -> None:
    (found,) = stored_objects(store(), Lead(address="10.0.0.9"))
    assert found.metadata.name == "x"
