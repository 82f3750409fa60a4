"""Events to state, in whatever order they come.

Any history of events leaves the store that its last objects make of an empty one; the comparison finds differences.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hsdns.apiserver.resource import ENDPOINT_SLICES, SERVICES, Resource
from hsdns.apiserver.watch_event import ProtobufEvents
from hsdns.cluster.freshness import (
    ANYTHING,
    STALENESS,
    NoCounters,
    address_counter,
    service_counter,
    spec_counter,
)
from hsdns.cluster.objects import (
    CHANGE_TIME,
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Deleted,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Event,
    Object,
    ObjectMeta,
    Selector,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.read_object import READ, programming_in, read_time, read_time_in_python, upserted
from hsdns.cluster.store import Store, StoreSettings
from hsdns.cluster.value import Key, ServiceValue
from hsdns.fastpath import IMPLEMENTATION, ClusterNames, Versions
from hsdns.metrics import PROGRAMMING_BUCKETS, Histogram, Registry
from loadtest.apiserver import objects
from loadtest.apiserver.protobuf import write_frame
from loadtest.apiserver.watch_cache import Stored
from tests import strategies
from tests.apiserver.test_histories import visible
from tests.apiserver.test_protobuf import omitted
from tests.support.cluster.differences import differences
from tests.support.cluster.objects import (
    deletes,
    endpoint_slice,
    meta,
    namespace,
    pod,
    service,
    upserts,
)
from tests.support.cluster.reverse_index import owners_by_address
from tests.support.effort import tries
from tests.support.tables import columns

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


# Services with their slices, in any order of events.
#
# ServiceImports and their slices, event by event; any history is compared in test_store.py.
#
# How long a change took: its beginning as RFC 3339, and the kind of Service.


def test_a_slice_that_loses_its_label_is_gone() -> None:
    said: list[str] = []
    store = make_store(*upserts(endpoint_slice("ns/s", "web", "172.0.0.1")), said=said)
    store.apply(upserts(endpoint_slice("ns/s", None, "172.0.0.1", version="2")))
    assert store.services.values == {}
    assert addresses(store) == set()
    assert said == [
        "EndpointSlice ns/s: it has no usable label kubernetes.io/service-name; it is skipped"
    ]


# --- the time that changes take ---


def programmed(found: EndpointSlice, written: str | None) -> EndpointSlice:
    """The slice as a controller marks it."""
    annotations = None if written is None else {CHANGE_TIME: written}
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


AT_990 = "1970-01-01T00:16:30.000000000Z"


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
    metrics = Registry()
    store = make_store(*upserts(*before), metrics=metrics)
    store.apply([event])
    metrics.fold()
    (histogram,) = (each for each in metrics if isinstance(each, Histogram))
    measured = {labels: (sum(cells[:-1]), cells[-1]) for labels, cells in histogram.values.items()}
    assert measured == {(kind,): (1, 10.0) for kind in kinds}


@pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")
@settings(suppress_health_check=list(HealthCheck), max_examples=tries(60))
@given(strategies.histories(), st.booleans(), st.booleans(), st.booleans())
def test_compiled_code_applies_slices_as_python_does(
    history: list[Event], pod_names: bool, zonal: bool, not_ready: bool
) -> None:
    """After any state and each event of any history over protobuf, all that a store has is equal, counters too."""
    found = StoreSettings(endpoint_pod_names=pod_names, zonal=zonal, not_ready=not_ready)
    stores = [Whole(found), Whole(found, in_python=True)]
    half = len(history) // 2
    # As from watches: each batch has one kind, and Services come first.
    history[:half] = sorted(
        history[:half],
        key=lambda each: (
            2 - 2 * is_read(each) + isinstance(getattr(each, "object", 0), EndpointSlice)
        ),
    )
    for events in (history[:half], *([each] for each in history[half:])):
        for each in stores:
            each.apply(events)
        assert stores[0].shown() == stores[1].shown()


@pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")
@pytest.mark.parametrize(
    ("made", "resource", "kind"),
    [(objects.endpoint_slice(1, 3), ENDPOINT_SLICES, EndpointSlice), (objects.service(1), SERVICES, Service)],
)  # fmt: skip
def test_an_event_that_compiled_code_has_read_has_the_whole_object(
    made: Stored, resource: Resource, kind: type[Object]
) -> None:
    frame = write_frame(msgspec.json.encode({"type": "ADDED", "object": made.manifest}))
    (read,) = ProtobufEvents(resource).feed(frame)
    assert isinstance(read.object, READ)
    assert upserted(read.object).object == msgspec.convert(made.manifest, kind)


def is_read(event: Event) -> TypeGuard[Upserted]:
    """Whether compiled code reads the object of an event."""
    return isinstance(event, Upserted) and isinstance(event.object, Service | EndpointSlice)


class Whole:
    """A store with compiled counters and names, with its changes in Python if wanted; what it rejects."""

    def __init__(self, found: StoreSettings, *, in_python: bool = False) -> None:
        self.counters, self.names, self.rejected = Versions(), ClusterNames(), list[str]()
        self._times, self.metrics = count(), Registry()
        self.store = Store(
            found,
            wall=lambda: float(next(self._times)),
            warn=self.rejected.append,
            counters=self.counters,
            names=self.names,
            metrics=self.metrics,
        )
        if in_python:
            self.store.services._compiled = None
        self._looked_at: set[int] = {ANYTHING}
        self._keys: set[Key] = set()

    def apply(self, events: list[Event]) -> None:
        """Apply events, as the API server's protobuf has them."""
        self.store.apply([self._read(each) for each in events])

    def _read(self, event: Event) -> Event:
        if is_read(event):
            manifest = omitted(msgspec.to_builtins(event.object))
            kind = type(event.object).__name__
            manifest["metadata"]["annotations"] = {CHANGE_TIME: "2023-11-14T22:13:20Z"}
            line = msgspec.json.encode({"type": "ADDED", "object": {"kind": kind, **manifest}})
            resource = SERVICES if kind == "Service" else ENDPOINT_SLICES
            (read,) = ProtobufEvents(resource).feed(write_frame(line))
            assert isinstance(read.object, READ)
            return upserted(read.object)
        return event

    def shown(self) -> list[object]:
        """All that a store has, beside the history that every other one has."""
        services = self.store.services
        self.metrics.fold()
        self._keys |= set(services.values)
        addresses = services.endpoint_ips.addresses() + services.cluster_ips.addresses()
        self._looked_at |= {address_counter(each) for each in addresses}
        self._looked_at |= {
            of(*key) for of in (service_counter, spec_counter) for key in self._keys
        }
        return [
            visible(self.store),
            services._slice_owner,
            {key: (value.resource_version, value.slices) for key, value in services.values.items()},
            {key: self.names.label_count(*key) for key in self._keys},
            {index: self.counters.read(index) for index in self._looked_at},
            (services.changes, self.store.serial, services.external_serial, self.rejected),
            services.history.after(None),
            [each.values for each in self.metrics if isinstance(each, Histogram)],
        ]


def imported(
    path: str, *ips: str, version: str = "1", port: int = 80, labels: dict[str, str] | None = None
) -> ServiceImport:
    """A ServiceImport, headless without addresses."""
    spec = ServiceImportSpec(
        "ClusterSetIP" if ips else "Headless", list(ips), [ServicePort(port, "http", "TCP")]
    )
    return ServiceImport(meta(path, version, labels), spec)


def shared_slice(path: str, owner: str, cluster: str, *endpoints: str, version: str = "1", own: str | None = None) -> EndpointSlice:  # fmt: skip
    """A slice of a ServiceImport, and of a Service where `own` names one."""
    labels = {IMPORT_NAME_LABEL: owner, SOURCE_CLUSTER_LABEL: cluster}
    return endpoint_slice(path, own, *endpoints, version=version, labels=labels)


class ScriptedStore:
    """A store with a clock."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.sentences: list[str] = []
        self.store = Store(
            StoreSettings(multicluster=True, **options),
            wall=lambda: self.now,
            warn=self.sentences.append,
        )

    def after(self, *events: object) -> tuple[int, int]:
        """The serials, the own and the shared one, after some events that come a second later."""
        self.now += 1
        self.store.apply(events)  # type: ignore[arg-type]  # events
        return self.store.serial, self.store.imports.serial


IMPORT = imported("ns/web", "10.0.1.1")
EAST = shared_slice("ns/db-east", "db", "east", "172.1.0.1 host=a")


def test_serials_move_as_in_coredns() -> None:
    scripted = ScriptedStore()
    assert scripted.after(*upserts(IMPORT)) == (101, 0)
    assert scripted.after(*upserts(IMPORT)) == (101, 0)  # the same version
    assert scripted.after(*upserts(imported("ns/web", "10.0.1.2", version="2"))) == (
        101,
        0,
    )  # an address is not looked at
    assert scripted.after(*upserts(imported("ns/web", "10.0.1.2", version="3", port=81))) == (101, 104)  # fmt: skip
    assert scripted.after(*upserts(imported("ns/web", version="4", port=81))) == (
        101,
        105,
    )  # its type
    assert scripted.after(*deletes(IMPORT)) == (106, 105)
    assert scripted.after(*deletes(IMPORT)) == (106, 105)
    assert scripted.after(*upserts(EAST))[1] == 105
    changed = shared_slice("ns/db-east", "db", "east", "172.1.0.2 host=a", version="2")
    assert scripted.after(*upserts(changed))[1] == 109


def test_without_the_option_nothing_is_stored() -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=pytest.fail)
    store.apply(upserts(IMPORT, EAST))
    assert store.imports.values == {}
    assert store.changes == 0


def test_the_selector_of_namespaces_chooses_imports() -> None:
    scripted = ScriptedStore(
        labels=Selector.from_text("app=web"), namespace_labels=Selector.from_text("team=a")
    )
    scripted.after(*upserts(IMPORT, imported("ns/in", "10.0.1.3", labels={"team": "a"})))
    assert set(scripted.store.imports.values) == {(b"ns", b"in")}


def test_faults_are_reported() -> None:
    scripted = ScriptedStore(noendpoints=True)
    scripted.after(
        *upserts(
            imported("ns/" + "x" * 64, "10.0.1.1"),
            imported("ns/odd", "10.0.1"),
            shared_slice("ns/s", "db", "east", "172.1.0"),
        )
    )
    assert scripted.sentences == [
        f"ServiceImport ns/{'x' * 64}: its name is not a DNS label; it is skipped",
        'ServiceImport ns/odd: IP "10.0.1" is not an IP address; it is skipped',
        'EndpointSlice ns/s: "172.1.0" is not an IP address; it is skipped',
    ]


@pytest.mark.parametrize(
    ("text", "seconds"), columns(Path(__file__).with_name("tables.txt"), "times")
)
def test_read_time(text: str, seconds: str) -> None:
    expected = None if seconds == "None" else pytest.approx(float(seconds), abs=1e-6)
    assert read_time(text) == expected


DIGITS = r"(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?(Z|\+01:00)"


@given(st.from_regex(DIGITS, fullmatch=True) | st.text(max_size=30))
def test_compiled_code_reads_the_same_times(text: str) -> None:
    assert read_time(text) == read_time_in_python(text)


def test_the_histogram_is_that_of_coredns() -> None:
    metrics = Registry()
    programmed = programming_in(metrics)
    programmed("cluster_ip", "2023-11-14T22:13:20Z", 1_700_000_000.25)
    programmed("cluster_ip", "2023-11-14T22:13:20.5Z", 1_700_000_000.0)  # the other clock is ahead
    programmed("cluster_ip", "soon", 1_700_000_000.0)
    (histogram,) = metrics
    assert isinstance(histogram, Histogram)
    assert (
        not histogram.values
    )  # an event is waited for: what it measures is counted at the next scrape
    metrics.fold()
    assert histogram.name == "coredns_kubernetes_dns_programming_duration_seconds"
    assert histogram.labels == ("service_kind",)
    assert (histogram.buckets[0], histogram.buckets[-1]) == (0.001, 524.288)
    assert histogram.buckets == PROGRAMMING_BUCKETS
    cells = histogram.values["cluster_ip",]
    assert (sum(cells[:-1]), cells[0], cells[-1]) == (2, 1, -0.25)


def test_a_slice_that_changes_keeps_its_place() -> None:
    parts = [endpoint_slice(f"ns/web-{number}", "web", f"10.0.0.{number}") for number in (1, 2, 3)]
    changed = endpoint_slice("ns/web-2", "web", "10.0.0.9", version="2")
    value = make_store(*upserts(service("ns/web"), *parts, changed)).services.values[b"ns", b"web"]
    assert [part.addresses[3] for part in value.slices] == [1, 9, 3]
