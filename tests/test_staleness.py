"""No answer is older than the last event that was applied before it was asked for, whoever gives it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import dns.message
import msgspec
import pytest

from hsdns import query as spine
from hsdns.cluster.freshness import Dependencies, versions_of
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    Deleted,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Service,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceSpec,
    Upserted,
)
from hsdns.server.answer_tables import Recomputation
from hsdns.wire import encode as wire_encode
from hsdns.wire.edns import Edns
from tests.cluster.test_freshness import at_lines
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import until
from tests.support.servers.cluster_server import WAYS, BlockingClient, ClusterServer
from tests.support.servers.memory_server import (
    CLIENT,
    KUBERNETES,
    LOCAL,
    MemoryServer,
    ask,
    cluster_objects,
)
from tests.support.servers.udp_listeners import KINDS, each_kind, serving_with

# Bound to an address of the host that is an endpoint of the cluster's DNS Service in some tests.
BOUND = f".:53 {{\nbind 192.0.2.53\n{KUBERNETES}}}\n"
DB = "db.default.svc.cluster.local."


# --- one writer, many readers ---

SET_LEN = 10


def whole_set(version: int) -> EndpointSlice:
    """Ten addresses that say of which version they are."""
    addresses = (f"10.{version >> 8}.{version & 255}.{host}" for host in range(SET_LEN))
    return endpoint_slice("default/db-1", "db", *addresses, version=str(version + 1))


def version_of(reply: bytes) -> int:
    """The version whose whole set a reply is; AssertionError where it is none."""
    found = sorted(
        rdata.address.split(".") for rrset in dns.message.from_wire(reply).answer for rdata in rrset
    )
    assert len(found) == SET_LEN
    assert sorted(int(words[3]) for words in found) == list(range(SET_LEN))
    versions = {int(words[1]) << 8 | int(words[2]) for words in found}
    assert len(versions) == 1, found
    return versions.pop()


class Flip:
    """What writer and readers share."""

    def __init__(self) -> None:
        self.begun = self.applied = 0  # the last event that may be seen, and the last that must be
        self.answered = dict.fromkeys(WAYS, 0)
        self.faults: list[str] = []
        self.over = threading.Event()

    def read(self, address: tuple[str, int], way: str) -> None:
        """Ask until it is over; an answer from before an event that was applied is a fault."""
        options: list[dict[str, Any]] = [{}, {"edns": Edns(1232)}, {"edns": Edns(4096, do=True)}]
        try:
            with BlockingClient(address, way) as client:
                while not self.over.is_set():
                    least = self.applied
                    version = version_of(client.ask(DB, **options[self.answered[way] % 3]))
                    if not least <= version <= self.begun:
                        self.faults.append(f"{way}: {version}, not {least} to {self.begun}")
                    self.answered[way] += 1
        except Exception as error:
            self.faults.append(f"{way}: {error!r}")


@pytest.mark.sockets
@pytest.mark.parametrize("kind", KINDS)
async def test_readers_see_whole_sets_and_none_that_is_over(kind: str, tmp_path: Path) -> None:
    events = 150
    flip = Flip()

    try:
        with serving_with(kind):
            corefile = f".:PORT {{\nbind 127.0.0.1\nloadbalance\n{KUBERNETES}}}\n"
            objects = cluster_objects(service("default/db"), whole_set(0))
            async with ClusterServer(tmp_path, corefile, objects, workers=2) as cluster_server:
                readers = [
                    asyncio.create_task(asyncio.to_thread(flip.read, cluster_server.address, way))
                    for way in (*WAYS, "udp")
                ]
                for version in range(1, events + 1):
                    before = dict(flip.answered)
                    flip.begun = version
                    cluster_server.apply(Upserted(whole_set(version)))
                    flip.applied = version
                    await until(
                        lambda before=before: (  # type: ignore[misc]  # mypy cannot infer a default's type
                            bool(flip.faults)
                            or all(flip.answered[way] > before[way] + 1 for way in WAYS)
                        ),
                        "answers after an event",
                    )
                flip.over.set()
                await asyncio.gather(*readers)
                hits = cluster_server.hits()
    finally:
        flip.over.set()
    assert flip.faults == []
    assert hits > events, "the table answered in between"


# --- an event while an answer is on its way into the table ---


def test_event_between_computing_and_writing(twin: ModuleType) -> None:
    objects = cluster_objects(service("default/db"), whole_set(0))
    memory_server = MemoryServer(f".:53 {{\n{KUBERNETES}}}\n", twin, objects)
    wire = ask(DB)

    def encode(*arguments: Any) -> bytes:
        if (
            memory_server.plugins[0]
            .store.services.values[b"default", b"db"]
            .slices[0]
            .resource_version
            == "1"
        ):
            memory_server.apply(Upserted(whole_set(1)))
        return wire_encode.encode(*arguments)

    with patch.object(spine, "encode", encode):
        old = memory_server.from_chain(wire)
    assert old is not None
    assert version_of(old) == 0  # it was asked for before the event
    assert memory_server.from_table(wire) is None
    assert memory_server.writer.table.statistics()[:1] == (0,)
    assert memory_server.writer.table.statistics().refused == 1
    new = memory_server.from_chain(wire)
    assert new is not None
    assert version_of(new) == 1
    assert memory_server.from_table(wire) == new


# --- after each kind of event the next answer is new ---

KUBE_DNS = endpoint_slice("kube-system/dns-1", "kube-dns", "192.0.2.53")
NAMESPACES = ("default", "kube-system")


def base(*objects: Object) -> list[Object]:
    return cluster_objects(*objects, namespaces=NAMESPACES)


def namespace(name: str) -> Namespace:
    return Namespace(ObjectMeta(name=name, resource_version="9"))


def external(name: str, target: str, version: str = "1") -> Object:
    return service(
        f"default/{name}", external=f"{target}.default.svc.cluster.local", version=version
    )


CHAIN = [external("a", "b"), external("b", "c"), service("default/c", "10.96.0.3")]
WEB = "web.default.svc.cluster.local."
PODS = endpoint_slice("default/db-1", "db", "10.0.0.1 host=db-0")
OTHER_PODS = endpoint_slice("default/db-1", "db", "10.0.0.9 host=db-0", version="2")

CHANGES = [
    pytest.param([service("default/web", "10.96.0.1")], WEB, Upserted(service("default/web", "10.96.0.2", version="2")), id="cluster-ip"),
    pytest.param([service("default/web", "10.96.0.1")], WEB, Deleted(service("default/web", version="2")), id="service-deleted"),
    pytest.param([], WEB, Upserted(service("default/web", "10.96.0.2")), id="service-added-where-a-region-denied-it"),
    pytest.param([], f"{WEB} AAAA", Upserted(service("default/web", "fd96::1")), id="service-added-ipv6"),
    pytest.param([service("default/web", "10.96.0.1")], f"{WEB} AAAA", Upserted(service("default/web", "10.96.0.1", "fd96::1", version="2")), id="second-family"),
    pytest.param([service("default/db"), PODS], DB, Upserted(OTHER_PODS), id="headless"),
    pytest.param([service("default/db"), PODS], f"db-0.{DB}", Upserted(OTHER_PODS), id="name-of-a-pod"),
    pytest.param([service("default/db"), PODS], f"db-1.{DB}", Upserted(endpoint_slice("default/db-2", "db", "10.0.0.7 host=db-1")), id="name-of-a-pod-that-comes"),
    pytest.param([service("default/db"), PODS], f"_http._tcp.{DB} SRV", Upserted(OTHER_PODS), id="srv"),
    pytest.param([service("default/db")], DB, Upserted(PODS), id="first-endpoints"),
    pytest.param([PODS], DB, Upserted(service("default/db")), id="service-after-its-endpoints"),
    pytest.param([*CHAIN], "a.default.svc.cluster.local.", Upserted(service("default/c", "10.96.0.4", version="2")), id="end-of-a-chain"),
    pytest.param([*CHAIN, service("default/d", "10.96.0.5")], "a.default.svc.cluster.local.", Upserted(external("b", "d", "2")), id="link-of-a-chain"),
    pytest.param([*CHAIN[:2]], "a.default.svc.cluster.local.", Upserted(CHAIN[2]), id="end-of-a-chain-that-comes"),
    pytest.param([*CHAIN], "a.default.svc.cluster.local.", Deleted(CHAIN[2]), id="end-of-a-chain-that-goes"),
    pytest.param([*CHAIN], "a.default.svc.cluster.local. CNAME", Upserted(external("a", "c", "2")), id="cname"),
    pytest.param([service("default/web", "10.96.0.1")], "1.0.96.10.in-addr.arpa. PTR", Deleted(service("default/web", version="2")), id="ptr-that-goes"),
    pytest.param([], "1.0.96.10.in-addr.arpa. PTR", Upserted(service("default/web", "10.96.0.1")), id="ptr-that-comes"),
    pytest.param([service("default/db"), PODS], "1.0.0.10.in-addr.arpa. PTR", Upserted(endpoint_slice("default/db-1", "db", "10.0.0.1 host=db-9", version="2")), id="ptr-of-a-pod"),
    pytest.param([service("kube-system/kube-dns", "10.96.0.10")], "cluster.local. NS", Upserted(KUBE_DNS), id="ns"),
    pytest.param([service("kube-system/kube-dns", "10.96.0.10")], "ns.dns.cluster.local.", Upserted(KUBE_DNS), id="ns-address"),
    pytest.param([service("default/web", "10.96.0.1")], WEB, Deleted(namespace("default")), id="namespace-deleted"),
    pytest.param([service("late/web", "10.96.0.1")], "web.late.svc.cluster.local.", Upserted(namespace("late")), id="namespace-that-comes"),
    pytest.param([], "late.svc.cluster.local.", Upserted(namespace("late")), id="empty-namespace-that-comes"),
    pytest.param([], "1-2-3-4.default.pod.cluster.local.", Deleted(namespace("default")), id="namespace-of-a-pod-deleted"),
    pytest.param([], "cluster.local. SOA", Upserted(service("default/web", "10.96.0.1")), id="serial"),
    pytest.param([], "nope.cluster.local.", Upserted(service("default/web", "10.96.0.1")), id="serial-of-a-region"),
    pytest.param([service("default/web", "10.96.0.1")], f"{WEB} TXT", Upserted(service("default/other", "10.96.0.1")), id="serial-of-an-entry"),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "question", "event"), CHANGES)
def test_next_answer_is_new(
    twin: ModuleType, objects: list[Object], question: str, event: Event
) -> None:
    memory_server = MemoryServer(BOUND, twin, base(*objects))
    assert memory_server.stores("first.cluster.local."), "the region has its template"
    asked: Sequence[dict[str, Any]] = ({}, {"edns": Edns(1232)})
    for options in asked:
        wire = ask(question, **options)
        for _ in range(2):  # the address of a Pod is stored when it is asked for again
            memory_server.from_chain(wire)
        old = memory_server.from_table(wire)
        assert old is not None
        assert old == memory_server.from_chain(wire, stores=False)
    memory_server.runtime.now += 1  # the serial moves
    memory_server.apply(event)
    for options in asked:
        wire = ask(question, **options)
        new = memory_server.from_chain(wire, stores=False)
        for protocol in ("udp", "tcp"):
            found = memory_server.from_table(wire, protocol)
            assert found in (None, new)
        if not options:
            assert new != old_of(memory_server, objects, question)
        memory_server.from_chain(wire)
        assert memory_server.from_table(wire) == new


class Held(Recomputation):
    """Tells whether an event is on its way."""

    is_held = False

    def hold(self) -> None:
        super().hold()
        self.is_held = True

    def release(self, *, more: bool = False) -> None:
        super().release(more=more)
        self.is_held = False


class _Waits(Exception):
    """A reply waits until the event is shown."""


ALSO = (WEB, f"{WEB} AAAA", DB, f"{DB} SRV", f"db-0.{DB}", "1.0.0.10.in-addr.arpa. PTR")
HSDNS = str(Path(spine.__file__).parent)


@pytest.mark.parametrize(("objects", "question", "event"), CHANGES)
async def test_no_answer_goes_back_in_time(
    twin: ModuleType,
    objects: list[Object],
    question: str,
    event: Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread asks before each line that an event runs, for the name that it changes and others."""
    memory_server = MemoryServer(BOUND, twin, base(*objects, service("default/serial")))
    assert memory_server.stores("first.cluster.local."), "the region has its template"
    runtime, versions = memory_server.runtime, memory_server.runtime._versions
    processor, counters = runtime.processors[memory_server.server], Held(versions, runtime.clock)
    counters.writers = (memory_server.writer,)
    (plugin,) = memory_server.plugins
    plugin.store._counters = plugin.store.services._counters = counters
    wires = [
        ask(each, edns=edns) for each in (question, *ALSO) for edns in (None, Edns(1232, do=True))
    ]

    def settle(dependencies: object) -> None:
        if counters.is_held:
            raise _Waits

    def answer(wire: bytes) -> bytes | None:
        found = memory_server.from_table(wire)
        if found is None and processor.make(wire, runtime.now):
            found = memory_server.from_table(wire)
        with contextlib.suppress(_Waits):
            found = found or finish(processor.answer(wire, CLIENT, LOCAL, "udp", runtime.now))
            processor.flush()
        return found

    def all_answers() -> list[bytes | None]:
        return [answer(wire) for wire in wires]

    seen: list[tuple[int, bytes | None]] = []
    turn = itertools.count()

    def look() -> None:
        numbers = (0, 1, next(turn) % len(wires))
        seen.extend((number, readers.submit(answer, wires[number]).result()) for number in numbers)

    monkeypatch.setattr(Dependencies, "settle", settle, raising=False)
    with ThreadPoolExecutor(1) as readers:
        for _ in range(2):
            readers.submit(all_answers).result()
        before = readers.submit(all_answers).result()
        if versions_of(counters) is versions and twin.__name__.endswith("_native"):
            counters.attach()  # this thread, which applies the event, recomputes replies
        at_lines(lambda: memory_server.apply(event), look, within=HSDNS)
        after = readers.submit(all_answers).result()
    is_shown = False
    for number, reply in seen:
        if before[number] != after[number] and reply is not None:
            assert reply in (before[number], after[number])
            is_shown |= reply == after[number]
            assert is_shown == (reply == after[number]), wires[number]


def old_of(memory_server: MemoryServer, objects: list[Object], question: str) -> bytes | None:
    """What was said before the event."""
    before = MemoryServer(BOUND, None, base(*objects))
    before.runtime.now = memory_server.runtime.now - 1
    return before.from_chain(ask(question), stores=False)


def test_events_of_others_leave_entries_alone(twin: ModuleType) -> None:
    """But for two of twenty at most: names may share one of the 65,536 version counters."""
    names = [f"web-{number}" for number in range(20)]
    services = [service(f"default/{name}", f"10.96.0.{n}") for n, name in enumerate(names, 1)]
    memory_server = MemoryServer(f".:53 {{\n{KUBERNETES}}}\n", twin, base(*services))
    wires = [ask(f"{name}.default.svc.cluster.local.") for name in names]
    assert all(memory_server.stores(f"{name}.default.svc.cluster.local.") for name in names)
    for number in range(50):
        memory_server.apply(Upserted(service(f"default/other-{number}", f"10.96.1.{number}")))
    kept = [reply for wire in wires if (reply := memory_server.from_table(wire))]
    assert len(kept) >= len(names) - 2
    assert set(kept) <= {memory_server.from_chain(wire, stores=False) for wire in wires}
    assert memory_server.writer.table.statistics().stale == len(names) - len(kept)


def test_events_in_one_step_are_seen_together(twin: ModuleType) -> None:
    memory_server = MemoryServer(f".:53 {{\n{KUBERNETES}}}\n", twin, base(*CHAIN))
    assert memory_server.stores("a.default.svc.cluster.local.")
    memory_server.apply(
        Deleted(CHAIN[2]),
        Upserted(service("default/c", "10.96.0.7", version="5")),
        Upserted(CHAIN[0]),
    )
    wire = ask("a.default.svc.cluster.local.")
    assert memory_server.from_table(wire) is None
    reply = memory_server.from_chain(wire)
    assert reply is not None
    assert reply.endswith(bytes((10, 96, 0, 7)))


# --- hosts ---


@pytest.mark.sockets
@each_kind
async def test_names_of_a_hosts_file(kind: str, tmp_path: Path) -> None:
    """Those that it has at the start, those that come, and those that it has after a reload."""
    file = tmp_path / "hosts"
    first, later = "first.cluster.local.", "later.cluster.local."

    def write(text: str) -> None:
        """Exchange the file in one step, as a mounted ConfigMap is."""
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").replace(file)

    write(f"192.0.2.1 {first}\n")
    corefile = f".:PORT {{\nbind 127.0.0.1\nhosts {file} {{\nreload 10ms\nfallthrough\n}}\n{KUBERNETES}}}\n"

    def answers(cluster_server: ClusterServer, *questions: str) -> list[list[str]]:
        found = []
        for way in WAYS:
            with BlockingClient(cluster_server.address, way) as client:
                replies = [dns.message.from_wire(client.ask(question)) for question in questions]
                found.append(
                    [reply.answer[0][0].to_text() if reply.answer else "" for reply in replies]
                )
        return found

    async with ClusterServer(
        tmp_path, corefile, base(service("default/web", "10.96.0.1")), 2
    ) as cluster_server:

        async def say(
            *expected: str, asked: Sequence[str] = ("x.cluster.local.", first, later)
        ) -> None:
            found = await asyncio.to_thread(answers, cluster_server, *asked)
            assert found == [list(expected)] * len(WAYS)

        await say("", "192.0.2.1", "")
        await say("", "192.0.2.1", "")  # from the table, where it may be

        def entries() -> float:
            return sum(cluster_server.value("coredns_hosts_entries", "gauge").values())

        before = entries()
        write(f"192.0.2.1 {first}\n192.0.2.2 {later} {WEB}\n")
        await until(lambda: entries() > before, "the file read")
        await say(
            "", "192.0.2.1", "192.0.2.2", "192.0.2.2", asked=("x.cluster.local.", first, later, WEB)
        )
        cluster_server.write(corefile.replace("\nhosts ", "\nloadbalance\nhosts "))
        assert await cluster_server.server.reload()
        await say("", "192.0.2.1", "192.0.2.2")
        await say("", "192.0.2.1", "192.0.2.2")
        before = entries()
        write(f"192.0.2.2 {later}\n")
        await until(lambda: entries() < before, "the file read")
        await say("", "", "192.0.2.2", "10.96.0.1", asked=("x.cluster.local.", first, later, WEB))


@pytest.mark.sockets
@each_kind
async def test_first_query_after_a_reload_sees_the_new_configuration(
    kind: str, tmp_path: Path
) -> None:
    corefile = f".:PORT {{\nbind 127.0.0.1\n{KUBERNETES}}}\n"

    def ttls(cluster_server: ClusterServer, way: str) -> list[int]:
        with BlockingClient(cluster_server.address, way) as client:
            replies = [
                dns.message.from_wire(client.ask(name)) for name in (WEB, "x.cluster.local.")
            ]
        return [rrset.ttl for reply in replies for rrset in (*reply.answer, *reply.authority)]

    objects = base(service("default/web", "10.96.0.1"))
    async with ClusterServer(tmp_path, corefile, objects) as cluster_server:
        for ttl in (5, 17, 29, 41):
            for way in ("udp", "tcp", "udp"):
                assert await asyncio.to_thread(ttls, cluster_server, way) == [ttl, ttl]
            cluster_server.write(
                corefile.replace("pods insecure", f"pods insecure\nttl {ttl + 12}")
            )
            assert await cluster_server.server.reload()


OTHER = endpoint_slice("default/db-1", "db", "10.0.0.9 host=db-0", version="2")
GONE = Namespace(ObjectMeta(name="default", resource_version="9"))


# Topology zones, the Services of a set of clusters, and how Services are reached from outside.
EVERYTHING = Path(__file__).with_name("staleness.corefile").read_text()
WEB_SET, DB_SET = "web.default.svc.clusterset.local.", "db.default.svc.clusterset.local."


def imported(name: str, *ips: str, version: str = "1") -> ServiceImport:
    spec = ServiceImportSpec(
        "ClusterSetIP" if ips else "Headless", list(ips), [ServicePort(80, "http", "TCP")]
    )
    return ServiceImport(ObjectMeta(name, "default", version), spec)


def shared(address: str, cluster: str = "east", version: str = "1") -> EndpointSlice:
    """Endpoint db-0 of the ServiceImport db."""
    labels = {IMPORT_NAME_LABEL: "db", SOURCE_CLUSTER_LABEL: cluster}
    endpoints = [Endpoint([address], hostname="db-0")]
    meta = ObjectMeta("db-1", "default", version, labels=labels)
    return EndpointSlice(meta, "IPv4", endpoints, [EndpointPort("http", "TCP", 80)])


def outside(name: str, *addresses: str, version: str = "1") -> Service:
    ports = [ServicePort(80, "http", "TCP")]
    spec = ServiceSpec(cluster_ips=["10.96.0.1"], external_ips=list(addresses), ports=ports)
    return Service(ObjectMeta(name, "default", version), spec)


def placed(zone: str, version: str = "1") -> EndpointSlice:
    """Endpoint db-0 of the Service db."""
    return msgspec.structs.replace(
        endpoint_slice("default/db-1", "db", version=version),
        endpoints=[Endpoint(["10.0.0.1"], hostname="db-0", zone=zone)],
    )


OF_EVERYTHING = [
    pytest.param([service("default/db"), placed("a")], f"a.pin._zone.{DB}", Upserted(placed("b", "2")), id="topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"a.prefer._zone.{DB}", Deleted(placed("a")), id="endpoint-of-a-topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"z.prefer._zone.{DB} SRV", Deleted(service("default/db")), id="service-of-a-topology-zone"),
    pytest.param([service("default/db"), placed("a")], f"b.pin._zone.{DB}", Upserted(placed("b", "2")), id="topology-zone-that-was-empty"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Upserted(imported("web", "10.97.0.2", version="2")), id="import"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Deleted(imported("web")), id="import-deleted"),
    pytest.param([imported("web", "10.97.0.1")], WEB_SET, Deleted(GONE), id="namespace-of-an-import"),
    pytest.param([imported("db"), shared("10.0.0.1")], DB_SET, Upserted(shared("10.0.0.2", version="2")), id="endpoint-of-an-import"),
    pytest.param([imported("db"), shared("10.0.0.1")], f"db-0.east.{DB_SET}", Upserted(shared("10.0.0.1", "west", "2")), id="endpoint-that-moves-to-another-cluster"),
    pytest.param([imported("db"), shared("10.0.0.1")], f"{DB_SET} SRV", Deleted(shared("10.0.0.1")), id="slice-of-an-import-deleted"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Upserted(outside("web", "192.0.2.2", version="2")), id="external-address"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Upserted(outside("web", version="2")), id="external-address-taken-away"),
    pytest.param([outside("web", "192.0.2.1")], "_http._tcp.web.default.example.org. SRV", Deleted(outside("web")), id="srv-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "web.default.example.org.", Deleted(GONE), id="namespace-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("web", "192.0.2.2", version="2")), id="ptr-from-outside"),
    pytest.param([outside("web", "192.0.2.1")], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("api", "192.0.2.1")), id="second-ptr-from-outside"),
    pytest.param([service("default/db"), placed("a")], "db-0.db.default.example.org.", Deleted(placed("a")), id="endpoint-from-outside"),
    pytest.param([service("default/db"), placed("a")], "db.default.example.org. SRV", Upserted(OTHER), id="endpoints-from-outside"),
    pytest.param([outside("dns", "192.0.2.1"), endpoint_slice("default/dns-1", "dns", "192.0.2.53")], "example.org. NS", Upserted(outside("dns", "192.0.2.9", version="2")), id="ns-from-outside"),
    pytest.param([outside("dns", "192.0.2.1"), endpoint_slice("default/dns-1", "dns", "192.0.2.53")], "ns1.dns.example.org.", Deleted(endpoint_slice("default/dns-1", "dns")), id="ns-address-from-outside"),
    pytest.param([], "web.default.example.org.", Upserted(outside("web", "192.0.2.1")), id="external-address-that-comes"),
    pytest.param([], "1.2.0.192.in-addr.arpa. PTR", Upserted(outside("web", "192.0.2.1")), id="external-ptr-that-comes"),
    pytest.param([], WEB_SET, Upserted(imported("web", "10.97.0.1")), id="import-that-comes"),
    pytest.param([service("default/web", "10.96.0.1")], WEB_SET, Upserted(imported("web", "10.97.0.1")), id="import-beside-a-service"),
]  # fmt: skip


@pytest.mark.parametrize(("objects", "question", "event"), OF_EVERYTHING)
def test_next_answer_of_every_kind_is_new(
    twin: ModuleType, objects: list[Object], question: str, event: Event
) -> None:
    memory_server = MemoryServer(EVERYTHING, twin, cluster_objects(*objects))
    wire = ask(question)
    memory_server.from_chain(wire)
    before = memory_server.from_chain(wire)  # a topology zone without endpoints is stored now
    known = memory_server.from_table(wire)
    assert before is not None
    # What has a SOA record of these zones is not kept: its serial is another than the one that is written.
    has_soa = before[9] and (
        "example.org" in question or "clusterset" in question or "192.in" in question
    )
    assert known == (None if has_soa else before)
    memory_server.apply(event)
    new = memory_server.from_chain(wire, stores=False)
    assert new != before
    for protocol in ("udp", "tcp"):
        assert memory_server.from_table(wire, protocol) in (None, new)
