"""Services with their slices, in any order of events."""

from itertools import count

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.apiserver.resource import ENDPOINT_SLICES, SERVICES
from hsdns.apiserver.watch_event import ProtobufEvents
from hsdns.cluster.freshness import ANYTHING, address_counter, service_counter, spec_counter
from hsdns.cluster.objects import (
    CHANGE_TIME,
    Deleted,
    EndpointSlice,
    Event,
    Object,
    Service,
    Upserted,
)
from hsdns.cluster.read_object import READ, upserted
from hsdns.cluster.store import Store, StoreSettings
from hsdns.cluster.value import Key
from hsdns.fastpath import IMPLEMENTATION, ClusterNames, Versions
from hsdns.metrics import Histogram, Registry
from loadtest.apiserver.protobuf import write_frame
from tests import strategies
from tests.apiserver.test_histories import visible
from tests.apiserver.test_protobuf import omitted
from tests.cluster.test_store import FIRST, addresses, make_store
from tests.support.cluster.objects import endpoint_slice, service, upserts
from tests.support.effort import tries


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
    """After each event of any history over protobuf, all that a store has is equal, and the same counters have moved."""
    found = StoreSettings(pod_names=pod_names, zonal=zonal, not_ready=not_ready)
    stores = [Whole(found), Whole(found, in_python=True)]
    for event in history:
        for each in stores:
            each.apply(event)
        assert stores[0].shown() == stores[1].shown()


class Whole:
    """A store with compiled counters and names, with its changes in Python if wanted; what it rejects."""

    def __init__(self, found: StoreSettings, *, in_python: bool = False) -> None:
        self.counters, self.names, self.rejected = Versions(), ClusterNames(), list[str]()
        self._times = count()
        self.store = Store(
            found,
            wall=lambda: float(next(self._times)),
            warn=self.rejected.append,
            counters=self.counters,
            names=self.names,
        )
        if in_python:
            self.store.services._compiled = None
        self._looked_at: set[int] = {ANYTHING}
        self._keys: set[Key] = set()

    def apply(self, event: Event) -> None:
        """Apply an event, as the API server's protobuf has it."""
        if isinstance(event, Upserted) and isinstance(event.object, Service | EndpointSlice):
            manifest = omitted(msgspec.to_builtins(event.object))
            kind = type(event.object).__name__
            line = msgspec.json.encode({"type": "ADDED", "object": {"kind": kind, **manifest}})
            resource = SERVICES if kind == "Service" else ENDPOINT_SLICES
            (read,) = ProtobufEvents(resource).feed(write_frame(line))
            assert isinstance(read.object, READ)
            event = upserted(read.object)
        self.store.apply([event])

    def shown(self) -> list[object]:
        """All that a store has, beside the history that every other one has."""
        services = self.store.services
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
            services.history.since(0.0),
        ]
