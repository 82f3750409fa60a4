"""The list of a cluster's names against the replies to queries.

The lines for what changed between two states of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hsdns.cluster import answer_set
from hsdns.cluster.answer_set import MOST, Changes
from hsdns.cluster.objects import Event, Object, ServiceImport, ServiceImportSpec, ServicePort
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from tests import strategies
from tests.cluster.test_reference import ask, serve, with_sync
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import (
    deletes,
    endpoint_slice,
    meta,
    namespace,
    pod,
    service,
    upserts,
)
from tests.support.cluster.reference import Options
from tests.support.effort import tries
from tests.support.plugins.requests import section

pytestmark = pytest.mark.usefixtures("quiet_clusters")

WEB = service("testns/web", "10.0.0.1", ports=["http/TCP/80"])
CLUSTERS = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    max_examples=tries(50),
)  # fmt: skip


def listed(plugin: Kubernetes) -> list[tuple[RR, ...]]:
    return list(plugin.answer_set().rrsets())


def lines(found: Iterable[tuple[RR, ...]]) -> list[str]:
    """The records but those of the zones themselves."""
    return [
        line.replace("testns.svc.cluster.local.", "@").replace(" 5 IN ", " ")
        for rrset in found
        for line in section(rrset)
        if len(line.split()[0].split(".")) > 4
    ]


def test_names_of_topology_zones() -> None:
    near = endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0")
    near = replace(near, endpoints=[replace(each, zone="eu.1") for each in near.endpoints or ()])
    cluster = Cluster(service("testns/db", ports=[]), near, zones="cluster.local", zonal=True)
    found = lines(listed(cluster.plugin))
    for directive in ("pin", "prefer"):
        assert f"eu.1.{directive}._zone.db.@ A 172.16.0.1" in found


def test_names_of_a_clusterset() -> None:
    shared = ServiceImport(
        meta("testns/db"),
        ServiceImportSpec(type="Headless", ports=[ServicePort(80, "http", "TCP")]),
    )
    part = endpoint_slice(
        "testns/db-1", None, "172.16.0.1 host=db-0",
        labels={"multicluster.kubernetes.io/service-name": "db", "multicluster.kubernetes.io/source-cluster": "east"},
    )  # fmt: skip
    zone = Name.from_text("clusterset.local.")
    cluster = Cluster(
        WEB, shared, part, zones="cluster.local clusterset.local", multicluster=(zone,)
    )
    found = lines(cluster.plugin.answer_set().of_zone(zone))
    assert "db-0.east.db.testns.svc.clusterset.local. A 172.16.0.1" in found
    assert not any("web" in line for line in found)


def test_a_name_belongs_to_the_longest_zone() -> None:
    """`sub` is a namespace of a Service in the outer zone's names, and the apex of the inner zone."""
    cluster = Cluster(
        service("testns/web", "10.0.0.1", ports=[]), zones="cluster.local testns.svc.cluster.local"
    )
    owners = {rrset[0].owner.to_text() for rrset in listed(cluster.plugin)}
    assert "web.testns.svc.cluster.local." not in owners


def test_nothing_is_added_to_the_store() -> None:
    plugin = Cluster(WEB, service("testns/db"), endpoint_slice("testns/s", "db", "10.0.0.2")).plugin
    values = plugin.store.services.values.values()
    assert len(listed(plugin)) > 5
    assert [len(value.nodes) for value in values] == [0, 0]
    assert all(value._labels is None for value in values)


@CLUSTERS
@given(seed=strategies.seeds, options=strategies.options(), cluster=strategies.clusters())
def test_it_is_what_queries_are_answered_with(
    seed: int, options: Options, cluster: list[Object]
) -> None:
    """Each RRset is the answer to its question, and each answer to a question is in an RRset."""
    plugin = serve(options, with_sync(options, cluster))
    found = {(rrset[0].owner, rrset[0].rrtype): rrset for rrset in listed(plugin)}
    assert len(found) == len(listed(plugin)), "an RRset came twice"
    for (owner, rrtype), rrset in found.items():
        answer = ask(plugin, owner, rrtype).answer
        if rrtype == RRType.CNAME:
            assert set(answer) <= set(rrset), owner
        else:
            assert set(rrset) == {
                each for each in answer if each.rrtype == rrtype and each.owner == owner
            }
    zones = tuple(map(Name.from_text, options.zones))
    for qname, qtype in strategies.questions(seed, cluster, options.zones, 80):
        if is_listed_otherwise(qname, zones, options):
            continue
        for record in ask(plugin, qname, qtype).answer:
            if record.owner == qname:
                rrset = found.get((record.owner, record.rrtype), ())
                assert record._replace(owner=qname.lowered()) in rrset, (qname, qtype)


def is_listed_otherwise(qname: Name, zones: tuple[Name, ...], options: Options) -> bool:
    """Whether a name is another spelling of a listed one, or one of those that any text makes."""
    zone = qname.longest_of(zones)
    if zone is None:
        return True
    labels = qname.below(zone)
    if labels[-1:] == (b"pod",):
        return options.pods == "insecure" or len(labels) > 3
    is_port = len(labels) == 5
    return is_port and not all(label.startswith(b"_") and len(label) > 1 for label in labels[:2])


@given(st.lists(st.tuples(st.binary(max_size=2), st.binary(max_size=2))), st.integers(1, 5))
def test_sorting_in_pieces(items: list[tuple[bytes, bytes]], at_once: int) -> None:
    """There is a pause after each piece, and then all items come in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_set, "SORTED_AT_ONCE", at_once)
        found = list(answer_set.in_order(items))
    pauses = -(-len(items) // at_once)
    assert found == [None] * pauses + sorted(items)


def test_the_list_can_be_made_in_pieces() -> None:
    """With a pause at least before each Service; without the pauses it is the same list."""
    plugin = Cluster(*(service(f"testns/s{number}", "10.0.0.1") for number in range(50))).plugin
    zone = plugin.zones[0]
    found = list(plugin.answer_set().pieces_of_zone(zone))
    assert [rrset for rrset in found if rrset] == list(plugin.answer_set().of_zone(zone))
    assert found.count(()) >= 50
    assert found[0][0].rrtype == RRType.SOA


def test_an_address_that_is_shared_is_listed_once() -> None:
    """Of Pods in the network of their host, and of a Service and an endpoint."""
    cluster = Cluster(
        *(pod(f"testns/p{number}", "172.16.0.9") for number in range(2)), namespace("testns"),
        service("testns/web", "172.16.0.9"), service("testns/db"), endpoint_slice("testns/db-1", "db", "172.16.0.9"),
        zones="cluster.local in-addr.arpa", pods="verified", local=["10.1.0.1"],
    )  # fmt: skip
    owners = [(rrset[0].owner.to_text(), rrset[0].rrtype) for rrset in listed(cluster.plugin)]
    assert len(owners) == len(set(owners))
    assert {
        ("9.0.16.172.in-addr.arpa.", RRType.PTR),
        ("172-16-0-9.testns.pod.cluster.local.", RRType.A),
        ("cluster.local.", RRType.NS),
        ("ns.dns.cluster.local.", RRType.A),
        ("dns-version.cluster.local.", RRType.TXT),
    } <= set(owners)


DB = service("testns/db")
ONE = endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0")
TWO = endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0", "172.16.0.2", version="2")
WEB_BEFORE = service("testns/web", "10.0.0.1")
MAIL = service("testns/mail", external="mx.example.org")


def renewed(cluster: Cluster, *events: Event) -> list[str]:
    changes = Changes(cluster.plugin.answer_set())
    cluster.apply(*events)
    return [line.replace("testns.svc.cluster.local", "@") for line in changes.lines()]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(upserts(TWO), ["+ 172.16.0.2 db.@"], id="endpoint-comes"),
        pytest.param(
            deletes(ONE),
            ["- 172.16.0.1 db.@", "- port 80 _http._tcp.db.@", "- 172.16.0.1 db-0.db.@"],
            id="last-endpoint-goes",
        ),
        pytest.param(
            upserts(endpoint_slice("testns/db-1", "db", "fd00::1 host=db-0", version="2", address_type="IPv6")),
            [
                "- 172.16.0.1 db.@", "- 172.16.0.1 db-0.db.@",
                "+ fd00::1 db.@", "+ fd00::1 db-0.db.@",
            ],
            id="address-changes",
        ),
        pytest.param(
            upserts(service("testns/web", "10.0.0.1", ports=["http/TCP/8080"], version="2")),
            ["- port 80 _http._tcp.web.@", "+ port 8080 _http._tcp.web.@"],
            id="port-changes",
        ),
        pytest.param(
            upserts(service("testns/mail", external="mail.example.org", version="2")),
            ["- CNAME mx.example.org mail.@", "+ CNAME mail.example.org mail.@"],
            id="external-name-changes",
        ),
        pytest.param(
            upserts(endpoint_slice("testns/web-1", "web", "172.16.0.7")), ["+ 172.16.0.7 172-16-0-7.web.@"],
            id="endpoint-of-a-cluster-ip-comes",
        ),
        pytest.param(deletes(WEB_BEFORE), ["- 10.0.0.1 web.@", "- port 80 _http._tcp.web.@"], id="service-goes"),
        pytest.param(
            upserts(namespace("other")), ["+ 10.0.0.9 web.other.svc.cluster.local", "+ port 80 _http._tcp.web.other.svc.cluster.local"],
            id="namespace-comes",
        ),
        pytest.param(upserts(service("testns/web", "10.0.0.1", version="2")), [], id="same-answers"),
        pytest.param(
            upserts(endpoint_slice("testns/db-2", "db", "a.example", address_type="FQDN")), ["+ CNAME a.example db.@", "+ CNAME a.example a-example.db.@"],
            id="name-of-a-slice",
        ),
    ],
)  # fmt: skip
def test_lines(events: list[Event], expected: list[str]) -> None:
    cluster = Cluster(DB, ONE, WEB_BEFORE, MAIL, service("other/web", "10.0.0.9"))
    assert renewed(cluster, *events) == expected


def test_at_most_a_screen() -> None:
    services = [
        service(f"testns/s{number:03}", f"10.0.1.{number}", ports=[]) for number in range(100)
    ]
    found = renewed(Cluster(), *upserts(*services))
    assert len(found) == MOST == 20
    assert found[:2] == ["+ 10.0.1.0 s000.@", "+ 10.0.1.1 s001.@"]
    assert found[-1] == f"… and {100 - MOST + 1} more changes"
