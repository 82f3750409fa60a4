"""What an answer depends on: as long as no counter has moved, asking again gives the same."""

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.chain import Handler
from hsdns.cluster.freshness import (
    ANYTHING,
    COUNT,
    Dependencies,
    address_counter,
    import_counter,
    namespace_counter,
    service_counter,
)
from hsdns.cluster.objects import Event
from hsdns.cluster.value import HEADLESS, ServiceValue
from hsdns.corefile.properties import read_properties
from hsdns.corefile.tree import Position
from hsdns.plugins.k8s_external import K8sExternal
from hsdns.plugins.kubernetes import Kubernetes, watch
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.cluster.test_reference import NEXT, serve
from tests.support.cluster.reference import Options
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request

REVERSED = ("10.0.0.1", "10.0.0.2", "10.0.0.30", "fd00::1", "10.96.0.1", "10.96.0.2")


class Counters:
    """Plain ones."""

    def __init__(self) -> None:
        self.values = [0] * COUNT

    def bump(self, index: int) -> None:
        self.values[index] += 1

    def read(self, index: int) -> int:
        return self.values[index]


class Names:
    """Plain ones; a name that is added twice or removed in vain is a fault."""

    def __init__(self) -> None:
        self.open = False
        self.serial = 0
        self.namespaces: set[bytes] = set()
        self.services: dict[tuple[bytes, bytes], Counter[bytes]] = {}

    def add_namespace(self, label: bytes) -> None:
        assert label not in self.namespaces
        self.namespaces.add(label)

    def remove_namespace(self, label: bytes) -> None:
        self.namespaces.remove(label)

    def add_service(self, namespace: bytes, name: bytes) -> None:
        assert (namespace, name) not in self.services
        self.services[namespace, name] = Counter()

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        del self.services[namespace, name]

    def add_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None:
        assert labels
        self.services[namespace, name].update(labels)

    def remove_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None:
        assert labels
        found = self.services[namespace, name]
        found.subtract(labels)
        assert min(found.values()) >= 0
        self.services[namespace, name] = +found


def listed_labels(value: ServiceValue, *, zonal: bool) -> Counter[bytes]:
    """What is to be listed below a Service, read from its value: its own labels and those of each slice."""
    found = Counter({b"\5_zone"} if zonal and value.kind == HEADLESS else set())
    found.update({wire(port.name, port.protocol) for port in value.ports if port.name and port.protocol})  # fmt: skip
    for name in {part.name for part in value.slices}:
        parts = [part for part in value.slices if part.name == name]
        dashed = {part.label(index) for part in parts for index in range(part.host_count)
                  if part.width and (part.labels is None or part.labels[index] is None)}  # fmt: skip
        given = {label for part in parts for label in part.labels or () if label is not None}
        ports = {port for part in parts for port in part.ports if port.name and port.protocol}
        found.update(map(wire, dashed))
        found.update({*map(wire, given), *(wire(port.name, port.protocol) for port in ports)})
    return found


def wire(*labels: bytes) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels)


def test_counters_are_in_range() -> None:
    found = [
        ANYTHING,
        service_counter(b"default", b"web"),
        import_counter(b"default", b"web"),
        namespace_counter(b"default"),
        address_counter(b"\x0a\0\0\1"),
    ]
    assert all(0 <= each < COUNT for each in found)
    assert service_counter(b"a", b"b") != service_counter(b"b", b"a")


def test_the_first_value_counts() -> None:
    counters = Counters()
    dependencies = Dependencies(counters)
    dependencies.add(5)
    counters.bump(5)
    dependencies.add(5)
    assert dependencies.pairs == ((5, 0),)
    assert dependencies.is_cacheable
    dependencies.mark_uncacheable()
    assert not dependencies.is_cacheable


def ask(plugin: Handler, qname: Name, qtype: int, dependencies: Dependencies) -> Reply:
    async def following(request: object) -> Reply:
        dependencies.mark_uncacheable()
        return NEXT

    request = make_request(".").replace(query=Query.ask(qname, qtype), dependencies=dependencies)
    return finish(plugin.handle(request, following))


def but_serial(records: Sequence[RR]) -> list[RR]:
    """Records, those of type SOA without their serial."""
    return [
        rr._replace(rdata=rr.rdata[:-20] + rr.rdata[-16:]) if rr.rrtype == RRType.SOA else rr
        for rr in records
    ]


def shown(reply: Reply) -> tuple[object, ...]:
    sections = (reply.answer, reply.authority, reply.additional)
    return reply.rcode, *map(but_serial, sections)


def outside(plugin: Kubernetes) -> K8sExternal:
    """The same cluster as it is shown outside."""
    values = read_properties([], K8sExternal.PROPERTIES) | {"headless": True}
    found = K8sExternal(plugin.zones, values, Position("", 0, 0))
    found.find_handlers([plugin])
    return found


@pytest.mark.parametrize("what", ["plain", "zonal", "multicluster", "outside"])
@settings(
    max_examples=40,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(strategies.seeds, strategies.options(), strategies.histories())
def test_an_answer_holds_until_a_counter_moves(
    what: str, seed: int, options: Options, history: list[Event]
) -> None:
    zone = Name.from_text("cluster.local")
    shared = (zone,) if what == "multicluster" else ()
    counters, names = Counters(), Names()
    with patch.object(watch, "ClusterNames", lambda: names):
        plugin = serve(options, [], counters=counters, zonal=what == "zonal", multicluster=shared)
    asked_one: Handler = outside(plugin) if what == "outside" else plugin
    asked = strategies.questions(seed, strategies.remaining(history), options.zones, 25)
    # Who serves the zone, and where addresses lead: one counter for the first, one an address for the others.
    asked += [(Name.from_text(options.zones[0]), RRType.NS)]
    asked += [(Name.from_text(f"ns.dns.{zone}"), RRType.A) for zone in options.zones[:1]]
    asked += [(Name.from_text(ip_address(text).reverse_pointer), RRType.PTR) for text in REVERSED]
    kept: dict[tuple[Name, int], tuple[Reply, tuple[tuple[int, int], ...]]] = {}
    for event in history:
        plugin.store.apply([event])
        store = plugin.store
        assert names.namespaces == set(store.namespaces)
        assert names.services == {
            key: listed_labels(value, zonal=what == "zonal")
            for key, value in store.services.values.items()
        }
        assert (names.open, names.serial) == (store.serves, store.serial)
        for qname, qtype in asked:
            dependencies = Dependencies(counters)
            reply = ask(asked_one, qname, qtype, dependencies)
            old = kept.get((qname, qtype))
            if old is not None and all(counters.read(index) == value for index, value in old[1]):
                assert shown(reply) == shown(old[0]), f"{qname.to_text()} {qtype}"
            kept.pop((qname, qtype), None)
            if dependencies.is_cacheable and reply.rcode in (0, 3):
                kept[qname, qtype] = reply, dependencies.pairs
