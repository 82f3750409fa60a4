"""Events to state, in whatever order they come."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import (
    Deleted,
    Event,
    Object,
    ObjectMeta,
    Pod,
    PodStatus,
    Synced,
    Upserted,
)
from hsdns.cluster.selector import Selector
from hsdns.cluster.store import Store
from hsdns.cluster.value import CLUSTER_IP
from tests.support.cluster import deletes, endpoint_slice, namespace, pod, service, upserts

WEB = (b"ns", b"web")


class Clock:
    """Seconds since the epoch that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_store(*events: Event, said: list[str] | None = None) -> Store:
    """A store after some events."""
    store = Store(Clock(), (said if said is not None else []).append)
    store.apply(events)
    return store


def addresses(store: Store) -> set[str]:
    """All endpoint addresses that lead somewhere, dotted."""
    return {".".join(map(str, address)) for address in store.endpoint_ips.snapshot()}


def test_a_slice_may_come_before_its_service_and_outlive_it() -> None:
    web, found = service("ns/web", "10.0.0.1"), endpoint_slice("ns/web-1", "web", "172.0.0.1")
    store = make_store(*upserts(found))
    assert store.services[WEB].kind is None
    store.apply(upserts(web))
    assert store.services[WEB].kind == CLUSTER_IP
    assert store.services[WEB].has_endpoints
    store.apply(deletes(web))
    assert store.services[WEB].kind is None
    assert addresses(store) == {"172.0.0.1"}
    assert len(store.cluster_ips) == 0
    store.apply(deletes(found))
    assert store.services == {}
    assert addresses(store) == set()


def test_a_slice_moves_between_services() -> None:
    store = make_store(*upserts(endpoint_slice("ns/s", "web", "172.0.0.1")))
    store.apply(upserts(endpoint_slice("ns/s", "db", "172.0.0.1", version="2")))
    assert list(store.services) == [(b"ns", b"db")]
    assert store.endpoint_ips.snapshot() == {bytes((172, 0, 0, 1)): {(b"ns", b"db", "s")}}


def test_a_slice_that_loses_its_label_is_gone() -> None:
    said: list[str] = []
    store = make_store(*upserts(endpoint_slice("ns/s", "web", "172.0.0.1")), said=said)
    store.apply(upserts(endpoint_slice("ns/s", None, "172.0.0.1", version="2")))
    assert store.services == {}
    assert addresses(store) == set()
    assert said == [
        "EndpointSlice ns/s: no usable label kubernetes.io/service-name; it is left out"
    ]


def test_slices_keep_their_place_and_share_addresses() -> None:
    one = endpoint_slice("ns/1", "web", "172.0.0.1", "172.0.0.2")
    two = endpoint_slice("ns/2", "web", "172.0.0.2")
    store = make_store(*upserts(one, two))
    store.apply(upserts(endpoint_slice("ns/1", "web", "172.0.0.3", version="2")))
    assert [part.name for part in store.services[WEB].slices] == ["1", "2"]
    assert addresses(store) == {"172.0.0.2", "172.0.0.3"}
    store.apply(deletes(two))
    assert addresses(store) == {"172.0.0.3"}


def test_a_service_changes_its_addresses() -> None:
    store = make_store(*upserts(service("ns/web", "10.0.0.1")))
    store.apply(upserts(service("ns/web", "10.0.0.2", version="2")))
    assert store.cluster_ips.snapshot() == {bytes((10, 0, 0, 2)): {WEB}}
    store.apply(upserts(service("ns/web", version="3")))
    assert len(store.cluster_ips) == 0


def test_one_event_makes_one_new_value_and_leaves_all_others() -> None:
    store = make_store(*upserts(service("ns/web"), service("ns/db")))
    before = dict(store.services)
    store.apply(upserts(endpoint_slice("ns/web-1", "web", "172.0.0.1")))
    assert store.services[WEB] is not before[WEB]
    assert store.services[b"ns", b"db"] is before[b"ns", b"db"]


SLICE = endpoint_slice("ns/web-1", "web", "172.0.0.1 host=a")


@pytest.mark.parametrize(
    ("before", "event", "moves"),
    [
        ((), Upserted(service("ns/web")), True),
        ((service("ns/web"),), Upserted(service("ns/web")), False),
        ((service("ns/web"),), Upserted(service("ns/web", version="2")), False),
        ((service("ns/web"),), Upserted(service("ns/web", ports=("x/TCP/1",), version="2")), True),
        ((service("ns/web"),), Upserted(service("ns/web", "10.0.0.1", version="2")), False),
        ((service("ns/web"),), Deleted(service("ns/web")), True),
        ((), Deleted(service("ns/web")), False),
        ((), Upserted(SLICE), True),
        ((SLICE,), Upserted(SLICE), False),
        (
            (SLICE,),
            Upserted(endpoint_slice("ns/web-1", "web", "172.0.0.1 host=a", version="2")),
            False,
        ),
        (
            (SLICE,),
            Upserted(endpoint_slice("ns/web-1", "web", "172.0.0.1 host=b", version="2")),
            True,
        ),
        (
            (SLICE,),
            Upserted(endpoint_slice("ns/web-1", "web", "172.0.0.2 host=a", version="2")),
            True,
        ),
        ((SLICE,), Deleted(SLICE), True),
        ((), Deleted(SLICE), False),
        ((), Upserted(namespace("ns")), False),
        ((), Upserted(pod("ns/p", "10.0.0.9")), True),
        ((pod("ns/p", "10.0.0.9"),), Upserted(pod("ns/p", "10.0.0.9", version="2")), False),
        ((pod("ns/p", "10.0.0.9"),), Upserted(pod("ns/p", "10.0.0.8", version="2")), True),
        ((), Synced(), False),
    ],
)
def test_the_serial_moves_with_what_can_be_seen(
    before: tuple[Object, ...], event: Event, moves: bool
) -> None:
    clock = Clock()
    store = Store(clock, lambda sentence: None)
    store.apply(upserts(*before))
    clock.now = 2000.0
    store.apply([event])
    assert (store.serial == 2000) is moves


def test_the_serial_is_0_before_the_first_event() -> None:
    assert make_store().serial == 0


def test_pods_by_address() -> None:
    one, two = pod("ns/p", "10.0.0.9"), pod("other/q", "10.0.0.9")
    store = make_store(*upserts(one, two))
    packed = bytes((10, 0, 0, 9))
    assert store.pods == {packed: ((b"ns", "p"), (b"other", "q"))}
    store.apply(
        upserts(Pod(ObjectMeta("p", "ns", deletion_timestamp="now"), PodStatus("10.0.0.1")))
    )
    assert store.pods == {packed: ((b"ns", "p"), (b"other", "q"))}
    store.apply(upserts(pod("ns/p", "10.0.0.9", phase="Succeeded", version="3")))
    assert store.pods == {packed: ((b"other", "q"),)}
    store.apply(deletes(two))
    assert store.pods == {}


def test_what_a_selector_no_longer_matches_is_gone() -> None:
    store = Store(Clock(), print, labels=Selector.from_text("app=web"))
    store.apply(upserts(service("ns/web", "10.0.0.1", labels={"app": "web"})))
    assert WEB in store.services
    store.apply(upserts(service("ns/web", "10.0.0.1", labels={"app": "x"}, version="2")))
    assert store.services == {}
    assert len(store.cluster_ips) == 0


def test_names_that_are_no_labels_are_left_out_and_told() -> None:
    said: list[str] = []
    store = make_store(*upserts(service(f"ns/{'x' * 64}"), namespace("y" * 64)), said=said)
    assert store.services == {}
    assert store.namespaces == {}
    assert said == [f"Service ns/{'x' * 64}: its name is no DNS label; it is left out"]


def test_synced_is_a_state_that_stays() -> None:
    store = make_store()
    assert not store.synced
    store.apply([Synced()])
    store.apply(upserts(namespace("ns")))
    assert store.synced
