"""The kubernetes plugin, its store and its schema against the plain and slow reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from hsdns.chain import Request
from hsdns.cluster.freshness import Counters
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
    Service,
    ServicePort,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.support.cluster.reference import (
    PASSED_ON,
    Answered,
    Options,
    PassedOn,
    Record,
    Reference,
)
from tests.support.coroutines.eager import turns
from tests.support.effort import tries
from tests.support.plugins.requests import make_request
from tests.support.plugins.runtime import FakeRuntime
from tests.support.tables import values

pytestmark = pytest.mark.usefixtures("quiet_clusters")

TABLES = Path(__file__).with_name("tables.txt")

# Making a cluster smaller takes minutes, more than a test may; the assertion names the question.
CLUSTERS = settings(
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
NEXT = Reply(rcode=Rcode.REFUSED, error="next")
# What a name outside the zone resolves to; one of the targets fails.
OUTSIDE = {b"\7example\3org\0": {1: b"\xc0\0\2\1", 28: b"\x20\1\x0d\xb8" + bytes(12)}}


class Recorded:
    """A source that delivers what it was given."""

    def __init__(self, batches: Iterable[Sequence[Event]]) -> None:
        self.batches = batches

    def check(self) -> list[str]:
        """Nothing is missing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver all of it."""
        for batch in self.batches:
            deliver(batch)

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Nothing changes by itself."""

    def silence(self, now: float) -> float:
        """Never unsure: what was given is all there is."""
        return 0.0


def resolve(request: Request) -> Reply:
    """Answer for names outside the cluster."""
    query = request.query
    return Reply(
        rcode=Rcode.NOERROR if query.qname.lower in OUTSIDE else Rcode.NXDOMAIN,
        answer=tuple(
            RR(Name(record.owner), record.rrtype, record.ttl, record.rdata)
            for record in outside(query.qname.lower, query.qtype)
        ),
    )


def outside(target: bytes, qtype: int) -> list[Record]:
    rdata = OUTSIDE.get(target, {}).get(qtype)
    return [] if rdata is None else [Record(target, qtype, 3600, rdata)]


def serve(
    options: Options,
    batches: Iterable[Sequence[Event]],
    counters: Counters | None = None,
    **more: Any,
) -> Kubernetes:
    """Start the plugin on a cluster; `more` are properties that the reference does not know."""
    values: dict[str, Any] = {
        name: [] if known.repeat == "collect" else known.default
        for name, known in Kubernetes.PROPERTIES.items()
    }
    values |= {
        "source": Recorded(batches),
        "namespaces": options.namespaces,
        "pods": options.pods,
        "endpoint_pod_names": options.endpoint_pod_names,
        "ttl": options.ttl,
        "noendpoints": options.noendpoints,
        "ignore": options.ignore_empty_service,
        "fallthrough": ()
        if options.fallthrough is None
        else tuple(Name.from_text(zone) for zone in options.fallthrough or (".",)),
        "startup_timeout": 0.0,
        **more,
    }
    plugin = Kubernetes(
        tuple(Name.from_text(zone) for zone in options.zones), values, ("dns://:53",)
    )
    runtime = FakeRuntime()
    runtime.addresses = list(options.local_addresses)
    runtime.resolver = resolve
    runtime.counters = counters or runtime.counters
    turns(plugin.start(runtime))
    for spawned in runtime.spawned.values():
        spawned.close()
    return plugin


def ask(plugin: Kubernetes, qname: Name, qtype: int) -> Reply:
    async def following(request: Request) -> Reply:
        return NEXT

    request = make_request(".").replace(query=Query.ask(qname, qtype))
    return turns(plugin.handle(request, following))[0]


def plain(records: Iterable[RR]) -> frozenset[Record]:
    """Records as the reference has them, an SOA's serial taken out."""
    return frozenset(
        Record(
            rr.owner.lower,
            rr.rrtype,
            rr.ttl,
            rr.rdata if rr.rrtype != RRType.SOA else rr.rdata[:-20] + bytes(4) + rr.rdata[-16:],
        )
        for rr in records
    )


def check(plugin: Kubernetes, reference: Reference, qname: Name, qtype: int) -> None:
    """Ask both the same."""
    reply, expected = ask(plugin, qname, qtype), reference.answers(qname, qtype)
    if reply.error == NEXT.error:  # it may be a copy that says how long it holds
        assert expected == [PASSED_ON], (qname, qtype)
        return
    found = Answered(
        reply.rcode, reply.aa, plain(reply.answer), plain(reply.authority), plain(reply.additional)
    )
    assert found in expected, (qname, qtype)
    assert len(found.answer) == len(reply.answer), (qname, qtype, "a record came twice")
    assert (reply.tc, reply.ra, reply.ad) == (False, False, False)


def with_sync(options: Options, cluster: Sequence[Object]) -> list[list[Event]]:
    events: list[Event] = [Upserted(found) for found in cluster]
    return [events, [Synced()]] if options.synced else [events]


@settings(CLUSTERS, max_examples=tries(75))
@given(seed=strategies.seeds, options=strategies.options(), cluster=strategies.clusters())
def test_replies_are_the_references(seed: int, options: Options, cluster: list[Object]) -> None:
    options = replace_resolve(options)
    plugin = serve(options, with_sync(options, cluster))
    reference = Reference(cluster, options)
    for qname, qtype in strategies.questions(seed, cluster, options.zones, 80):
        check(plugin, reference, qname, qtype)


@settings(CLUSTERS, max_examples=tries(30))
@given(seed=strategies.seeds, options=strategies.options(), history=strategies.histories())
def test_every_history_ends_in_what_it_left(
    seed: int, options: Options, history: list[Event]
) -> None:
    """Questions between the events fill whatever the plugin remembers, so that forgetting too is tested."""
    options = replace_resolve(options)
    plugin = serve(options, [])
    chance, done = Random(seed), 0
    while done < len(history):
        batch = history[done : done + chance.randint(1, 6)]
        plugin.store.apply(batch)
        done += len(batch)
        here = strategies.remaining(history[:done])
        synced = any(isinstance(event, Synced) for event in history[:done])
        reference = Reference(here, replace_resolve(options, synced=synced))
        for qname, qtype in strategies.questions(seed + done, here, options.zones, 25):
            check(plugin, reference, qname, qtype)

    left = strategies.remaining(history)
    scratch = serve(options, [[Upserted(found) for found in chance.sample(left, len(left))]])
    scratch.store.synced = plugin.store.synced
    reference = Reference(left, replace_resolve(options, synced=plugin.store.synced))
    for text in strategies.existing_names(left, options.zones):
        qname = Name.from_text(text)
        for qtype in (RRType.A, RRType.SRV, RRType.PTR):
            check(plugin, reference, qname, qtype)
            check(scratch, reference, qname, qtype)


@settings(CLUSTERS, max_examples=tries(20))
@given(history=strategies.histories())
def test_a_deleted_cluster_leaves_nothing(history: list[Event]) -> None:
    plugin = serve(Options(pods="verified"), [history])
    plugin.store.apply([Deleted(found) for found in strategies.remaining(history)])
    empty = Reference([], Options(pods="verified", synced=plugin.store.synced))
    for text in strategies.existing_names(strategies.remaining(history)):
        qname = Name.from_text(text)
        check(plugin, empty, qname, RRType.A)
    assert not plugin.store.services.values
    assert not len(plugin.store.services.cluster_ips.addresses())
    assert not len(plugin.store.services.endpoint_ips.addresses())


def replace_resolve(options: Options, synced: bool | None = None) -> Options:
    """Let the reference resolve names outside the zone as the fake runtime does."""
    fields = {name: getattr(options, name) for name in options.__dataclass_fields__}
    fields["resolve"] = outside
    if synced is not None:
        fields["synced"] = synced
    return Options(**fields)


def external(name: str, target: str) -> Service:
    meta = ObjectMeta(name=name, namespace="default")
    return Service(meta, ServiceSpec(type="ExternalName", external_name=target))


def chain(length: int) -> list[Object]:
    """ExternalNames e0 -> e1 -> ... and at the end a ClusterIP Service."""
    links: list[Object] = [
        external(f"e{number}", f"e{number + 1}.default.svc.cluster.local")
        for number in range(length)
    ]
    last = ObjectMeta(name=f"e{length}", namespace="default")
    links.append(Service(last, ServiceSpec(cluster_ip="10.96.0.1", ports=[ServicePort(80)])))
    return [Namespace(ObjectMeta(name="default")), *links]


@pytest.mark.parametrize(("length", "cnames"), values(TABLES, "chains of external names"))
def test_chains_of_external_names(length: int, cnames: int) -> None:
    cluster, options = chain(length), Options()
    plugin = serve(options, with_sync(options, cluster))
    qname = Name.from_text("e0.default.svc.cluster.local.")
    reply = ask(plugin, qname, RRType.A)
    assert len([rr for rr in reply.answer if rr.rrtype == RRType.CNAME]) == cnames
    assert len([rr for rr in reply.answer if rr.rrtype == RRType.A]) == (1 if cnames else 0)
    check(plugin, Reference(cluster, options), qname, RRType.A)


def circle(*with_address: str) -> list[Object]:
    """Headless Services f and h that lead to each other by FQDN slices, and g that leads to f."""

    def leading(name: str, target: str) -> list[Object]:
        meta = ObjectMeta(name=name, namespace="default")
        labels = {SERVICE_NAME_LABEL: name}
        slices = [("FQDN", f"{target}.default.svc.cluster.local")]
        if name in with_address:
            slices.append(("IPv4", f"10.0.0.{ord(name)}"))
        return [
            Service(meta, ServiceSpec(cluster_ip="None")),
            *(
                EndpointSlice(
                    ObjectMeta(name=f"{name}-{kind}", namespace="default", labels=labels),
                    kind,
                    [Endpoint(addresses=[address])],
                    [EndpointPort(name="sql", protocol="TCP", port=5432)],
                )
                for kind, address in slices
            ),
        ]

    leads_in = external("g", "f.default.svc.cluster.local")
    return [Namespace(ObjectMeta(name="default")), *leading("f", "h"), *leading("h", "f"), leads_in]


@pytest.mark.parametrize(
    ("with_address", "name", "cnames", "addresses"),
    [
        ("fh", "g", 2, 2),  # the way from h back to f has been gone
        ("fh", "f", 2, 2),
        ("f", "g", 1, 1),
        ("h", "g", 2, 1),
        ("", "g", 0, 0),
    ],
    ids=["led-into-it", "from-within", "the-first-alone", "the-second-alone", "no-address"],
)
def test_circles_of_endpoints(with_address: str, name: str, cnames: int, addresses: int) -> None:
    cluster, options = circle(*with_address), Options()
    plugin = serve(options, with_sync(options, cluster))
    qname = Name.from_text(f"{name}.default.svc.cluster.local.")
    reply = ask(plugin, qname, RRType.A)
    found = [rr.rrtype for rr in reply.answer]
    assert (found.count(RRType.CNAME), found.count(RRType.A)) == (cnames, addresses)
    check(plugin, Reference(cluster, options), qname, RRType.A)


def headless(entries: int, families: int = 1) -> list[Object]:
    """A headless Service with `entries` (address, port) pairs a family."""
    meta = ObjectMeta(name="db", namespace="default")
    slices: list[Object] = [
        EndpointSlice(
            ObjectMeta(name=f"db-{family}", namespace="default", labels={SERVICE_NAME_LABEL: "db"}),
            endpoints=[
                Endpoint(
                    addresses=[
                        f"10.0.{number // 250}.{number % 250}"
                        if family == 0
                        else f"fd00::{number:x}"
                    ],
                    hostname=f"db-{number}",
                )
                for number in range(entries)
            ],
            ports=[EndpointPort(name="sql", protocol="TCP", port=5432)],
        )
        for family in range(families)
    ]
    return [
        Namespace(ObjectMeta(name="default")),
        Service(meta, ServiceSpec(cluster_ip="None")),
        *slices,
    ]


@pytest.mark.parametrize(("entries", "families", "weight"), values(TABLES, "weights of srv records"))  # fmt: skip
def test_weights_of_srv_records(entries: int, families: int, weight: int) -> None:
    cluster, options = headless(entries, families), Options()
    plugin = serve(options, with_sync(options, cluster))
    qname = Name.from_text("db.default.svc.cluster.local.")
    reply = ask(plugin, qname, RRType.SRV)
    assert {rr.rdata[2:4] for rr in reply.answer} == {weight.to_bytes(2, "big")}
    assert (len(reply.answer), len(reply.additional)) == (entries, entries * families)
    check(plugin, Reference(cluster, options), qname, RRType.SRV)


@pytest.mark.parametrize(
    ("options", "qname", "expected"),
    [
        (Options(), "example.org.", PASSED_ON),
        (Options(), "nope.cluster.local.", Rcode.NXDOMAIN),
        (Options(synced=False), "nope.cluster.local.", Rcode.SERVFAIL),
        (Options(synced=False), "cluster.local.", Rcode.NOERROR),
        (Options(synced=False, fallthrough=()), "nope.cluster.local.", PASSED_ON),
        (Options(fallthrough=("in-addr.arpa.",)), "nope.cluster.local.", Rcode.NXDOMAIN),
    ],
    ids=[
        "other-zone",
        "nxdomain",
        "unsynced",
        "unsynced-apex",
        "falls-through-first",
        "falls-through-elsewhere",
    ],
)
def test_the_reference_itself(options: Options, qname: str, expected: int | PassedOn) -> None:
    """The reference says what the specification says, also where hypothesis seldom looks."""
    (found,) = Reference([], options).answers(Name.from_text(qname), RRType.A)
    assert (found if isinstance(found, PassedOn) else found.rcode) == expected
