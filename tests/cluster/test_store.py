"""Events to state, in whatever order they come.

Any history of events leaves the store that its last objects make of an empty one; the comparison finds differences.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.cluster.freshness import STALENESS, NoCounters
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Deleted,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Event,
    Object,
    ObjectMeta,
    Selector,
    Service,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.store import Store, StoreSettings
from hsdns.cluster.value import ServiceValue
from hsdns.metrics import Registry
from tests import strategies
from tests.support.cluster.differences import differences
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, pod, service, upserts
from tests.support.cluster.reverse_index import owners_by_address
from tests.support.effort import tries

WEB = (b"ns", b"web")
FIRST = endpoint_slice("ns/web-1", "web", "10.0.0.1")
SLICE = endpoint_slice("ns/web-1", "web", "172.0.0.1 host=a")


class Clock:
    """Seconds since the epoch that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_store(
    *events: Event, said: list[str] | None = None, metrics: Registry | None = None
) -> Store:
    """A store after some events."""
    warn = (said if said is not None else []).append
    store = Store(StoreSettings(), wall=Clock(), warn=warn, metrics=metrics)
    store.apply(events)
    return store


def addresses(store: Store) -> set[str]:
    """All endpoint addresses that lead somewhere, dotted."""
    return {
        ".".join(map(str, address)) for address in owners_by_address(store.services.endpoint_ips)
    }


@pytest.mark.parametrize(
    ("before", "event", "moves"),
    [
        ((), Upserted(service("ns/web")), True),
        ((service("ns/web"),), Upserted(service("ns/web")), False),
        ((service("ns/web"),), Upserted(service("ns/web", version="2")), False),
        ((service("ns/web"),), Upserted(service("ns/web", ports=("x/TCP/1",), version="2")), True),
        ((service("ns/web"),), Upserted(service("ns/web", "10.0.0.1", version="2")), False),
        (
            (service("ns/web", external="a.test"),),
            Upserted(service("ns/web", external="b.test", version="2")),
            True,
        ),
        ((service("ns/web"),), Deleted(service("ns/web")), True),
        ((), Deleted(service("ns/web")), False),
        ((SLICE,), Deleted(service("ns/web")), False),
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
    store = Store(StoreSettings(), wall=clock, warn=lambda sentence: None)
    store.apply(upserts(*before))
    clock.now = 2000.0
    store.apply([event])
    assert (store.serial == 2000) is moves


EXTERNAL = ServiceSpec(cluster_ips=["None"], external_ips=["192.0.2.1"], ports=[])


@pytest.mark.parametrize(
    ("event", "moves"),
    [
        (Upserted(service("ns/web", "10.0.0.1", version="2", ports=())), False),
        (Upserted(service("ns/web", version="2")), True),
        (Upserted(Service(ObjectMeta("web", "ns", "2"), EXTERNAL)), True),
        (Upserted(Service(ObjectMeta("db", "ns", "2"), EXTERNAL)), False),
        (Deleted(service("ns/web", ports=())), False),
    ],
)
def test_the_external_serial_moves_with_ports_and_external_addresses(
    event: Event, moves: bool
) -> None:
    store = make_store(Upserted(service("ns/web", ports=())), event)
    assert (store.services.external_serial == 1000) is moves


# --- invalid objects ---


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
    value = store.services.values.get(WEB, ServiceValue(None))
    return {
        (part.label(index).decode(), str(ip_address(host)))
        for part in value.slices
        for index in range(part.host_count)
        if isinstance(host := part.host(index), bytes)
    }


DASHED = {("10-0-0-1", "10.0.0.1")}


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
def test_the_usable_parts_are_served_and_the_others_reported_and_counted(
    objects: list[Object], served: set[tuple[str, str]], told: list[str]
) -> None:
    said: list[str] = []
    metrics = Registry()
    store = make_store(said=said, metrics=metrics)
    store.apply(upserts(*objects))
    assert shown(store) == served
    counter = metrics.counter("hsdns_kubernetes_rejected_total", ("kind", "reason"))
    kind = type(objects[0]).__name__
    assert counter.values == {(kind, reason): 1 for reason in told}
    assert len(said) == len(told)
    store.apply(deletes(*objects))
    assert (len(store.rejected._known), store.services.values, store.pods.by_address) == (0, {}, {})
    assert (
        len(store.services.endpoint_ips.addresses())
        == len(store.services.cluster_ips.addresses())
        == 0
    )


# --- restored snapshots ---


def test_replies_that_tell_its_age_become_stale_whenever_that_changes() -> None:
    bumped: list[int] = []

    class Counters(NoCounters):
        def bump(self, index: int) -> None:
            bumped.append(index)

    store = Store(StoreSettings(), wall=Clock(), warn=pytest.fail, counters=Counters())
    changes: list[Callable[[], None]] = [
        lambda: store.restore([FIRST], 900.0),
        lambda: store.lose("2026-01-02T03:04:05Z"),
        lambda: store.apply([Synced()]),
        lambda: store.lose(""),
    ]
    for change in changes:
        bumped.clear()
        change()
        assert STALENESS in bumped
    bumped.clear()
    store.apply([Upserted(FIRST), Synced()])
    assert STALENESS not in bumped


def test_a_name_is_denied_only_when_the_event_has_been_shown() -> None:
    order: list[str] = []

    class Counters(NoCounters):
        def release(self, *, more: bool = False) -> None:
            order.append("shown")

    class Names:
        add_service = add_labels = remove_labels = staticmethod(lambda *of: None)

        def remove_service(self, namespace: bytes, name: bytes) -> None:
            order.append("denied")

    found: Any = Names()
    store = Store(StoreSettings(), wall=Clock(), warn=pytest.fail, counters=Counters(), names=found)
    found.open = True
    store.apply([Upserted(service("ns/web")), Synced()])
    order.clear()
    store.apply(deletes(service("ns/web")))
    assert order == ["shown", "denied"]


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
    assert owners_by_address(store.services.endpoint_ips).keys() == {
        ip_address(each).packed for each in left
    }


def test_settings_are_words() -> None:
    assert make_store().settings.to_texts() == {}
    one = StoreSettings(
        endpoint_pod_names=True, noendpoints=True, labels=Selector.from_text("app=web")
    )
    assert one.to_texts() == {
        "endpoint_pod_names": "True",
        "noendpoints": "True",
        "labels": "app=web",
    }


def synced_store(*events: Event, **options: bool) -> Store:
    """A synced store after some events."""
    store = Store(StoreSettings(**options), wall=lambda: 0.0, warn=lambda sentence: None)  # type: ignore[arg-type]  # those that are flags
    store.apply([*events, Synced()])
    return store


@settings(
    max_examples=tries(30),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True], ids=["plain", "multicluster"])
@given(strategies.histories())
def test_any_history_ends_where_its_objects_do(shared: bool, history: list[Event]) -> None:
    store = synced_store(*history, zonal=shared, multicluster=shared)
    assert differences(store, strategies.remaining(history)) == []
