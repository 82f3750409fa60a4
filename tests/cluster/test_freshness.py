"""What an answer depends on: as long as no counter has moved, asking again gives the same."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.chain import Handler
from hsdns.cluster import store as store_module
from hsdns.cluster.freshness import COUNT, Dependencies, NoCounters
from hsdns.cluster.objects import Deleted, Event, Object, Synced, Upserted
from hsdns.cluster.value import HEADLESS, ServiceValue
from hsdns.corefile.properties import read_properties
from hsdns.corefile.tree import Position
from hsdns.plugins.k8s_external import K8sExternal
from hsdns.plugins.kubernetes import Kubernetes, watch
from hsdns.wire.iana import RRType, type_from_text
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.cluster.test_reference import NEXT, serve
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts
from tests.support.cluster.reference import Options
from tests.support.coroutines.eager import finish
from tests.support.effort import tries
from tests.support.plugins.requests import make_request

REVERSED = ("10.0.0.1", "10.0.0.2", "10.0.0.30", "fd00::1", "10.96.0.1", "10.96.0.2")


class Counters(NoCounters):
    """Plain ones, which a reader sees at once."""

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
        dashed = {part.label(index) for part in parts for index, own in enumerate(part.own_labels)
                  if part.width and not own}  # fmt: skip
        given = {label for part in parts for label in part.own_labels if label}
        ports = {port for part in parts for port in part.ports if port.name and port.protocol}
        found.update(map(wire, dashed))
        zones = {zone for part in parts for zone in part.topology_zones or ()}
        found.update(
            wire(*zone.split(b"."), b"pin", b"_zone") for zone in zones if 0 < len(zone) < 64
        )
        found.update({*map(wire, given), *(wire(port.name, port.protocol) for port in ports)})
    return found


def wire(*labels: bytes) -> bytes:
    return b"".join(bytes((len(label),)) + label for label in labels)


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
    max_examples=tries(20),
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


# --- events are applied in one thread, questions answered in another ---

STORED = (0, 3)  # the RCODEs that the answer table stores
CLUSTER = str(Path(store_module.__file__).parent)


def at_lines(
    work: Callable[[], None], interrupt: Callable[[], None], *, within: str = CLUSTER
) -> None:
    """Do `work` and call `interrupt` before each line of a folder that it runs, as another thread could."""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(within):
            return None
        if event == "line":
            sys.settrace(None)
            interrupt()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)


class Interrupted:
    """A cluster with its history, and questions about it."""

    def __init__(self, what: str, seed: int, options: Options, history: list[Event]) -> None:
        zone = Name.from_text("cluster.local")
        shared = (zone,) if what == "multicluster" else ()
        self.counters = Counters()
        plugin = serve(
            options, [], counters=self.counters, zonal=what == "zonal", multicluster=shared
        )
        self.store = plugin.store
        self.asked: Handler = outside(plugin) if what == "outside" else plugin
        asked = strategies.questions(seed, strategies.remaining(history), options.zones, 10)
        asked += [(Name.from_text(options.zones[0]), RRType.NS)]
        asked += [
            (Name.from_text(ip_address(text).reverse_pointer), RRType.PTR) for text in REVERSED
        ]
        self.questions = asked

    def ask(self, number: int) -> tuple[tuple[object, ...], Dependencies]:
        """The reply to a question."""
        dependencies = Dependencies(self.counters)
        reply = ask(self.asked, *self.questions[number], dependencies)
        return shown(reply), dependencies

    def all(self) -> list[tuple[object, ...]]:
        """The replies to all questions."""
        return [self.ask(number)[0] for number in range(len(self.questions))]


interrupted_settings = settings(
    max_examples=tries(10),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
)


@pytest.mark.parametrize("what", ["plain", "zonal", "multicluster", "outside"])
@interrupted_settings
@given(strategies.seeds, strategies.options(), strategies.histories())
def test_a_reader_in_the_middle_of_an_event_finds_the_state_before_or_after(
    what: str, seed: int, options: Options, history: list[Event]
) -> None:
    cluster, turn = Interrupted(what, seed, options, history), count()
    count_of_questions = len(cluster.questions)

    def observe(event: Event) -> list[tuple[int, tuple[object, ...], Dependencies]]:
        found = []

        def look() -> None:
            number = next(turn) % count_of_questions
            found.append((number, *cluster.ask(number)))

        at_lines(lambda: cluster.store.apply([event]), look)
        return found

    for event in history:
        before = cluster.all()
        found = observe(event)
        after = cluster.all()
        for number, reply, dependencies in found:
            # Name servers are found by several addresses, one after the other; and the addresses of a slice that moves
            # to another Service lead to both for a moment.
            may_mix = cluster.questions[number][1] in (RRType.NS, RRType.PTR) and reply[0] == 0
            assert may_mix or reply in (before[number], after[number]), cluster.questions[number]
            if reply[0] in STORED and dependencies.is_cacheable and dependencies.hold:
                assert reply == after[number], f"{cluster.questions[number]} would stay"


@pytest.mark.parametrize("what", ["plain", "zonal", "multicluster", "outside"])
@interrupted_settings
@given(strategies.seeds, strategies.options(), strategies.histories())
def test_events_in_the_middle_of_an_answer_are_in_it_or_not(
    what: str, seed: int, options: Options, history: list[Event]
) -> None:
    cluster, random = Interrupted(what, seed, options, history), Random(seed)
    events = list(reversed(history))

    def observe(number: int) -> tuple[tuple[object, ...], Dependencies, list[tuple[object, ...]]]:
        """The reply to a question with its dependencies, and those in all states meanwhile."""
        states = [cluster.ask(number)[0]]
        found = []

        def change() -> None:
            if events and random.random() < 0.2:
                cluster.store.apply([events.pop()])
                states.append(cluster.ask(number)[0])

        at_lines(lambda: found.append(cluster.ask(number)), change)
        change()
        return *found[0], states

    while events:
        number = random.randrange(len(cluster.questions))
        reply, dependencies, states = observe(number)
        assert reply in states, cluster.questions[number]
        if reply[0] in STORED and dependencies.is_cacheable and dependencies.hold:
            assert reply == states[-1], f"{cluster.questions[number]} would stay"


WEB, BACK = "web.default.svc.cluster.local. A", "7.0.0.10.in-addr.arpa. PTR"
SPACE, SERVICE = namespace("default"), service("default/web", "10.96.0.1")
SLICE = endpoint_slice("default/web-1", "web", "10.0.0.7")
NO_ADDRESS = service("default/web")
MOVED = endpoint_slice("default/web-1", "db", "10.0.0.7", version="2")
CHANGED = endpoint_slice("default/web-1", "web", "10.0.0.8", version="2")


@pytest.mark.parametrize(
    ("existing", "event", "question"),
    [
        pytest.param([SERVICE], Upserted(SPACE), WEB, id="namespace added"),
        pytest.param([SPACE, SERVICE], Deleted(SPACE), WEB, id="namespace deleted"),
        pytest.param([SPACE], Upserted(SERVICE), WEB, id="Service added"),
        pytest.param([SPACE, SERVICE], Deleted(SERVICE), WEB, id="Service deleted"),
        pytest.param(
            [SPACE, SERVICE],
            Upserted(service("default/web", "10.96.0.2", version="2")),
            WEB,
            id="Service changed",
        ),
        pytest.param([SPACE], Upserted(SERVICE), "1.0.96.10.in-addr.arpa. PTR", id="clusterIP"),
        pytest.param([SPACE, NO_ADDRESS], Upserted(SLICE), WEB, id="slice added"),
        pytest.param([SPACE, NO_ADDRESS], Upserted(SLICE), BACK, id="slice added, address"),
        pytest.param([SPACE, NO_ADDRESS, SLICE], Upserted(CHANGED), WEB, id="slice changed"),
        pytest.param(
            [SPACE, NO_ADDRESS, SLICE], Upserted(CHANGED), BACK, id="slice changed, address"
        ),
        pytest.param([SPACE, NO_ADDRESS, SLICE], Deleted(SLICE), BACK, id="slice deleted, address"),
        pytest.param([SPACE, NO_ADDRESS, SLICE], Upserted(MOVED), WEB, id="slice moved"),
        pytest.param([SPACE, SLICE], Deleted(SLICE), "cluster.local. NS", id="name server deleted"),
        pytest.param([SPACE, SLICE], Deleted(SLICE), BACK, id="slice without Service, address"),
        pytest.param(
            [SPACE, SERVICE, SLICE],
            Upserted(CHANGED),
            f"10-0-0-7.{WEB}",
            id="endpoint of a clusterIP",
        ),
    ],
)
def test_a_reader_at_any_line_of_an_event_keeps_nothing_old(
    existing: list[Object], event: Event, question: str
) -> None:
    options = Options(zones=("cluster.local.", "in-addr.arpa."), local_addresses=("10.0.0.7",))
    cluster = Interrupted("plain", 1, options, [])
    cluster.store.apply([*upserts(*existing), Synced()])
    qname, _, qtype = question.partition(" ")
    cluster.questions = [(Name.from_text(qname), type_from_text(qtype))]
    before, found = cluster.all()[0], []
    at_lines(lambda: cluster.store.apply([event]), lambda: found.append(cluster.ask(0)))
    after = cluster.all()[0]
    assert before != after
    assert {reply == before for reply, _ in found} == {True, False}, "asked before and after it"
    for reply, dependencies in found:
        assert reply in (before, after)
        if dependencies.hold:
            assert reply == after, "it would stay"


def test_the_address_of_a_slice_that_moves_never_leads_nowhere() -> None:
    cluster = Interrupted("plain", 1, Options(zones=("cluster.local.", "in-addr.arpa.")), [])
    cluster.store.apply([*upserts(SPACE, NO_ADDRESS, SLICE), Synced()])
    qname, _, qtype = BACK.partition(" ")
    cluster.questions, found = [(Name.from_text(qname), type_from_text(qtype))], []
    at_lines(lambda: cluster.store.apply([Upserted(MOVED)]), lambda: found.append(cluster.ask(0)))
    assert [reply[0] for reply, _ in found] == [0] * len(found)
