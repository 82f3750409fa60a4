"""Events to state, in whatever order they come."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Deleted,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Pod,
    PodStatus,
    Service,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.programming import CHANGE_TIME, programming_in
from hsdns.cluster.selector import Selector
from hsdns.cluster.store import Store
from hsdns.cluster.value import CLUSTER_IP, ServiceValue
from hsdns.metrics import Histogram, Registry
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, pod, service, upserts

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
        "EndpointSlice ns/s: it has no usable label kubernetes.io/service-name; it is left out"
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
    assert said == [
        f"Service ns/{'x' * 64}: its name is no DNS label; it is left out",
        f"Namespace {'y' * 64}: its name is no DNS label; it is left out",
    ]


def test_synced_is_a_state_that_stays() -> None:
    store = make_store()
    assert not store.synced
    store.apply([Synced()])
    store.apply(upserts(namespace("ns")))
    assert store.synced


# --- objects that break the rules ---


def sliced(
    *endpoints: Endpoint, labels: dict[str, str] | None = None, **fields: Any
) -> EndpointSlice:
    """A slice ns/web-1 of Service web with these endpoints."""
    owner = {SERVICE_NAME_LABEL: "web"} if labels is None else labels
    fields = {"address_type": "IPv4", "endpoints": list(endpoints), "ports": None} | fields
    return EndpointSlice(ObjectMeta("web-1", "ns", "7", labels=owner), **fields)


def host(hostname: str | None, *addresses: str) -> Endpoint:
    """An endpoint."""
    return Endpoint(list(addresses) or ["10.0.0.1"], hostname=hostname)


def shown(store: Store) -> set[tuple[str, str]]:
    """Labels and addresses of ns/web."""
    value = store.services.get(WEB, ServiceValue(None))
    return {
        (part.label(index).decode(), str(ip_address(host)))
        for part in value.slices
        for index in range(part.host_count)
        if isinstance(host := part.host(index), bytes)
    }


DASHED = {("10-0-0-1", "10.0.0.1")}
MANY = [host(None, f"10.{high}.0.{low}") for high in range(4) for low in range(250)]


@pytest.mark.parametrize(
    ("objects", "served", "told"),
    [
        pytest.param([sliced(host("a\0b"))], {("a\0b", "10.0.0.1")}, [], id="hostname-nul"),
        pytest.param([sliced(host("x" * 300))], DASHED, ["hostname"], id="hostname-300"),
        pytest.param([sliced(host("Web-0"))], {("web-0", "10.0.0.1")}, [], id="hostname-upper-case"),
        pytest.param([sliced(host("a.b"))], {("a.b", "10.0.0.1")}, [], id="hostname-dot"),
        pytest.param([sliced(host("*"))], {("*", "10.0.0.1")}, [], id="hostname-star"),
        pytest.param([sliced(host(""))], DASHED, [], id="hostname-empty"),
        pytest.param([sliced(host(None, "10.0.0.1", "10.0.0", "x", ""))], DASHED, ["address"], id="no-addresses"),
        pytest.param([sliced(host(None), labels={})], set(), ["owner"], id="no-label"),
        pytest.param([sliced(host(None), labels={SERVICE_NAME_LABEL: "x" * 64})], set(), ["owner"], id="long-label"),
        pytest.param([sliced(endpoints=None)], set(), [], id="endpoints-null"),
        pytest.param([sliced(Endpoint(None), host(None))], DASHED, [], id="addresses-null"),
        pytest.param([sliced(host("m", "::ffff:10.0.0.1"))], {("m", "10.0.0.1")}, [], id="ipv4-mapped"),
        pytest.param([sliced(host(None)), sliced(host(None))], DASHED, [], id="same-again"),
        pytest.param(
            [sliced(host(None)), endpoint_slice("ns/web-2", "web", "10.0.0.1")], DASHED, [], id="duplicate-slices"
        ),
        pytest.param([sliced(host(None), ports=None)], DASHED, [], id="ports-null"),
        pytest.param(
            [sliced(host(None), ports=[EndpointPort(f"p{number}", "TCP", number) for number in range(100)])],
            DASHED, [], id="100-ports",
        ),
        pytest.param([Service(ObjectMeta("web", "ns", "1"), ServiceSpec(cluster_ips=["10.0.0.999"]))], set(), ["address"], id="bad-cluster-ip"),
        pytest.param([service("ns/web", external="a..b")], set(), ["external_name"], id="bad-external-name"),
        pytest.param([service(f"ns/{'x' * 64}")], set(), ["name"], id="long-service-name"),
        pytest.param([namespace("")], set(), ["name"], id="namespace-without-name"),
        pytest.param([pod("ns/p", "10.0.0")], set(), ["address"], id="bad-pod-address"),
        pytest.param([pod("ns/p", "")], set(), [], id="pod-without-address"),
        pytest.param(
            [sliced(host("x" * 300), host("y" * 300), host(None, "a", "b"))], {("10-0-0-1", "10.0.0.1")},
            ["hostname", "address"], id="several",
        ),
    ],
)  # fmt: skip
def test_what_is_usable_is_served_and_the_rest_is_told_and_counted(
    objects: list[Object], served: set[tuple[str, str]], told: list[str]
) -> None:
    said: list[str] = []
    metrics = Registry()
    store = make_store(said=said)
    store.count_in(metrics)
    store.apply(upserts(*objects))
    assert shown(store) == served
    counter = metrics.counter("hsdns_kubernetes_rejected_total", "", ("kind", "reason"))
    kind = type(objects[0]).__name__
    assert counter.values == {(kind, reason): 1 for reason in told}
    assert len(said) == len(told)
    store.apply(deletes(*objects))
    assert (len(store.complaints), store.services, store.pods) == (0, {}, {})
    assert len(store.endpoint_ips) == len(store.cluster_ips) == 0


def test_a_thousand_endpoints_in_a_slice() -> None:
    store = make_store(*upserts(sliced(*MANY)))
    assert len(shown(store)) == len(store.endpoint_ips) == 1000


def test_an_endpoint_that_moves_between_slices_never_disappears() -> None:
    one, two = sliced(host("a")), endpoint_slice("ns/web-2", "web", "10.0.0.1 host=a")
    store = make_store(*upserts(one))
    store.apply(upserts(two))
    assert addresses(store) == {"10.0.0.1"}
    store.apply(deletes(one))
    assert shown(store) == {("a", "10.0.0.1")}
    assert addresses(store) == {"10.0.0.1"}


def test_a_fault_is_told_once_until_it_was_right_again() -> None:
    said: list[str] = []
    store = make_store(said=said)
    for version, address in enumerate(["x", "x", "x", "10.0.0.1", "x"]):
        found = endpoint_slice("ns/web-1", "web", address, version=str(version + 1))
        store.apply(upserts(found))
        store.apply(upserts(found))
    assert said == ['EndpointSlice ns/web-1: "x" is no address; it is left out'] * 2


# --- how long changes take ---


def programmed(found: EndpointSlice, written: str | None) -> EndpointSlice:
    """The slice as a controller marks it."""
    annotations = None if written is None else {CHANGE_TIME: written}
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


AT_990 = "1970-01-01T00:16:30.000000000Z"
FIRST = endpoint_slice("ns/web-1", "web", "10.0.0.1")


def with_selector(found: Service) -> Service:
    """The Service with a selector."""
    return msgspec.structs.replace(
        found, spec=msgspec.structs.replace(found.spec, selector={"app": "web"})
    )


@pytest.mark.parametrize(
    ("before", "event", "kinds"),
    [
        pytest.param([service("ns/web", "10.9.0.1")], Upserted(programmed(FIRST, AT_990)), ["cluster_ip"], id="cluster-ip"),
        pytest.param([with_selector(service("ns/web"))], Upserted(programmed(FIRST, AT_990)), ["headless_with_selector"], id="headless"),
        pytest.param([service("ns/web")], Upserted(programmed(FIRST, AT_990)), ["headless_without_selector"], id="no-selector"),
        pytest.param([service("ns/web"), FIRST], Deleted(programmed(FIRST, AT_990)), ["headless_without_selector"], id="deleted"),
        pytest.param([service("ns/web"), FIRST], Deleted(FIRST), [], id="deleted-unseen"),
        pytest.param([], Upserted(programmed(FIRST, AT_990)), [], id="service-not-known"),
        pytest.param([service("ns/web", external="10.0.0.1")], Upserted(programmed(FIRST, AT_990)), [], id="service-not-shown"),
        pytest.param([service("ns/web")], Upserted(FIRST), [], id="not-annotated"),
        pytest.param([service("ns/web")], Upserted(programmed(FIRST, "yesterday")), [], id="no-time"),
        pytest.param([service("ns/web"), programmed(FIRST, None)], Upserted(programmed(FIRST, AT_990)), [], id="seen-before"),
        pytest.param([FIRST], Upserted(with_selector(service("ns/web"))), [], id="not-a-slice"),
    ],
)  # fmt: skip
def test_programming(before: list[Object], event: Event, kinds: list[str]) -> None:
    metrics, store = Registry(), make_store(*upserts(*before))
    store.programmed = programming_in(metrics)
    store.apply([event])
    metrics.fold()
    (histogram,) = metrics
    assert isinstance(histogram, Histogram)
    measured = {labels: (sum(cells[:-1]), cells[-1]) for labels, cells in histogram.values.items()}
    assert measured == {(kind,): (1, 10.0) for kind in kinds}


def test_a_service_keeps_its_selector_when_its_slices_change() -> None:
    store = make_store(*upserts(with_selector(service("ns/web")), FIRST))
    assert store.services[WEB].has_selector


# --- a state from before ---


def test_what_is_restored_is_served_until_the_source_has_delivered() -> None:
    store = make_store()
    assert not store.serves
    store.restore([service("ns/web"), FIRST, namespace("ns"), pod("ns/p", "10.0.0.9")], 900.0)
    assert (store.serves, store.synced, store.restored, store.serial) == (True, False, 900.0, 1000)
    assert addresses(store) == {"10.0.0.1"}
    store.apply([Synced()])
    assert (store.serves, store.synced, store.restored) == (True, True, None)
    assert (store.services, store.namespaces, store.pods, addresses(store)) == ({}, {}, {}, set())


@pytest.mark.parametrize(
    ("events", "left"),
    [
        pytest.param([], set(), id="nothing-delivered"),
        pytest.param([Upserted(FIRST)], {"10.0.0.1"}, id="the-same-version"),
        pytest.param([Upserted(endpoint_slice("ns/web-1", "web", "10.0.0.3"))], {"10.0.0.3"}, id="other-content-of-the-same-version"),
        pytest.param([Upserted(FIRST), Deleted(FIRST)], set(), id="deleted-meanwhile"),
        pytest.param([Upserted(endpoint_slice("ns/web-2", "web", "10.0.0.2"))], {"10.0.0.2"}, id="another-one"),
        pytest.param([Upserted(endpoint_slice("ns/web-1", "db", "10.0.0.1"))], {"10.0.0.1"}, id="moved"),
    ],
)  # fmt: skip
def test_what_the_source_has_not_delivered_is_gone_when_it_is_synced(
    events: list[Event], left: set[str]
) -> None:
    store = make_store()
    store.restore([FIRST], 900.0)
    store.apply(events)
    store.apply([Synced()])
    assert addresses(store) == left
    assert store.endpoint_ips.snapshot().keys() == {ip_address(each).packed for each in left}


def test_what_was_restored_in_part_is_gone_when_it_is_synced() -> None:
    def broken() -> Iterator[Object]:
        yield FIRST
        raise OSError(5, "Input/output error")

    store = make_store()
    with pytest.raises(OSError, match="Input/output"):
        store.restore(broken(), 900.0)
    assert (store.serves, addresses(store)) == (False, {"10.0.0.1"})
    store.apply([Synced()])
    assert (store.serves, addresses(store)) == (True, set())


def test_selectors_are_not_asked_about_what_is_restored() -> None:
    store = Store(Clock(), print, labels=Selector.from_text("app=web"))
    store.restore([service("ns/web", "10.0.0.1")], 900.0)
    assert WEB in store.services
    store.apply(upserts(service("ns/web", "10.0.0.1", labels={"app": "x"})))
    assert store.services == {}


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        (Upserted(endpoint_slice("ns/web-1", "web", "10.0.0.1", version="2")), True),
        (Upserted(FIRST), False),
        (Upserted(namespace("ns")), False),
        (Upserted(Namespace(ObjectMeta("ns", resource_version="2"))), True),
        (Deleted(namespace("ns")), True),
        (Deleted(namespace("none")), False),
        (Upserted(pod("ns/p", "10.0.0.9", version="2")), False),
        (Upserted(pod("ns/p", "10.0.0.8", version="2")), True),
        (Synced(), False),
    ],
)
def test_changes_are_counted(event: Event, counts: bool) -> None:
    store = make_store(*upserts(FIRST, namespace("ns"), pod("ns/p", "10.0.0.9")))
    before = store.changes
    store.apply([event])
    assert (store.changes > before) is counts


def test_settings_are_words() -> None:
    assert make_store().settings == {}
    one = Store(
        Clock(), print, pod_names=True, endpoints=False, labels=Selector.from_text("app=web")
    )
    assert one.settings == {
        "endpoint_pod_names": "True",
        "noendpoints": "True",
        "labels": "app=web",
    }
    assert one.emptied().settings == one.settings
