"""Chains of CNAMEs; all other answers stand in tests/plugins/kubernetes/test_kubernetes.py.

The name server's own names; what it answers in all cases stands in tests/plugins/kubernetes/test_kubernetes.py.

What a transfer holds; tests/scenarios/transfer/kubernetes.md compares the order and the numbers with CoreDNS.
"""

from __future__ import annotations

from typing import Any

import pytest

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.cluster.answer import MAX_FOLLOWED, ClusterAnswers, Nameserver, Needs
from hsdns.cluster.freshness import Dependencies
from hsdns.cluster.lookup import NameLookup
from hsdns.cluster.objects import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from hsdns.cluster.schema import PIECE
from hsdns.cluster.store import Store, StoreSettings
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
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
from tests.support.plugins.requests import section

ZONE = Name.from_text("cluster.local")


def ask(answers: ClusterAnswers, qname: str, qtype: int = RRType.A) -> Reply:
    """The reply to a question that needs nothing."""
    reply = answers.answer(Name.from_text(qname), qtype, ZONE)
    assert isinstance(reply, Reply)
    return reply


def store_of(answers: ClusterAnswers) -> Store:
    """The store that chain_of() has made."""
    store = answers.lookup.store
    assert isinstance(store, Store)
    return store


def chain_of(length: int) -> ClusterAnswers:
    """Services c0 -> c1 -> ... -> web, `length` of them ExternalNames."""
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=print)
    store.apply(upserts(namespace("ns"), service("ns/web", "10.0.0.1")))
    for number in range(length):
        target = f"c{number + 1}" if number + 1 < length else "web"
        store.apply(upserts(service(f"ns/c{number}", external=f"{target}.ns.svc.cluster.local")))
    return ClusterAnswers(NameLookup(store, primary_zone=ZONE, ttl=5))


def test_a_reply_needs_all_names_outside_the_zone_at_once() -> None:
    answers, qname = chain_of(0), Name.from_text("db.ns.svc.cluster.local")
    targets = ("a.example", "web.ns.svc.cluster.local", "b.example", "c.example")
    found = endpoint_slice("ns/db-1", "db", *targets, address_type="FQDN")
    store_of(answers).apply(upserts(service("ns/db"), found))
    outside = [Name.from_text(name) for name in targets if name.endswith(".example")]
    needs = answers.answer(qname, RRType.A, ZONE)
    assert isinstance(needs, Needs)
    assert (needs.targets, [*needs.pieces]) == (tuple(outside), [])
    address = RR(outside[0], RRType.A, 60, bytes((192, 0, 2, 1)))
    first, last = Reply(answer=(address,), tc=True), Reply(dropped=True)
    known = {outside[0]: first, outside[2]: last}
    assert answers.answer_at_once(qname, RRType.A, ZONE, known) == (outside[1],)
    reply = answers.answer(qname, RRType.A, ZONE, {**known, outside[1]: Reply()})
    assert isinstance(reply, Reply)
    assert (reply.rcode, reply.aa, reply.tc) == (0, True, True)
    assert (reply.authority, reply.additional) == ((), ())
    assert section(reply.answer) == [
        "db.ns.svc.cluster.local. 5 IN CNAME a.example.",
        "a.example. 60 IN A 192.0.2.1",
        "db.ns.svc.cluster.local. 5 IN CNAME web.ns.svc.cluster.local.",
        "web.ns.svc.cluster.local. 5 IN A 10.0.0.1",
        "db.ns.svc.cluster.local. 5 IN CNAME b.example.",
    ]


def test_names_that_fan_out_at_every_step_are_followed_only_so_often() -> None:
    """Eleven Services with four targets each would be four million CNAMEs."""
    answers = chain_of(0)
    for number in range(11):
        forms = ("", "_p._tcp.", "p._tcp.", "_p.tcp.")
        targets = [f"{form}s{number + 1}.ns.svc.cluster.local" for form in forms]
        found = endpoint_slice(
            f"ns/s{number}-1", f"s{number}", *targets, ports=("p/TCP/1",), address_type="FQDN"
        )
        store_of(answers).apply(upserts(service(f"ns/s{number}"), found))
    asked: list[Name] = []
    find = answers.lookup.find

    def counting(qname: Name, zone: Name, dependencies: Dependencies | None) -> Any:
        asked.append(qname)
        return find(qname, zone, dependencies)

    answers.lookup.find = counting  # type: ignore[method-assign]  # to count the work, not the time
    ask(answers, "s0.ns.svc.cluster.local")
    assert 11 < len(asked) <= MAX_FOLLOWED + 1


def test_srv_records_of_many_endpoints_let_others_run_in_between() -> None:
    answers = chain_of(0)
    addresses = [f"10.{n >> 8}.{n & 255}.1" for n in range(2 * PIECE)]
    store_of(answers).apply(upserts(service("ns/db"), endpoint_slice("ns/db-1", "db", *addresses)))
    qname = Name.from_text("db.ns.svc.cluster.local")
    needs = answers.answer(qname, RRType.SRV, ZONE)
    assert isinstance(needs, Needs)
    *turns, reply = needs.pieces
    assert isinstance(reply, Reply)
    assert (len(reply.answer), needs.targets, turns) == (2 * PIECE, (), 4 * [None])
    assert ask(answers, qname.to_text(), RRType.SRV).answer == reply.answer
    assert answers.answer_at_once(qname, RRType.SRV, ZONE) == reply
    assert not answers.is_missing(qname, RRType.SRV, ZONE)


def test_addresses_outside_of_the_cluster() -> None:
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=print)
    spec = ServiceSpec(cluster_ips=["10.0.0.10"], external_ips=["192.0.2.53", "192.0.2.53"])
    hosted = ServiceStatus(LoadBalancerStatus([LoadBalancerIngress(hostname="lb.example.net")]))
    server = Nameserver(store, 9, ["10.1.0.1", "10.1.0.2"])
    alone = [bytes((10, 1, 0, 1)), bytes((10, 1, 0, 2))]
    assert server.external(headless=False) == alone
    store.apply(
        upserts(Service(meta("ns/dns"), spec, hosted), endpoint_slice("ns/s", "dns", "10.1.0.1"))
    )
    assert server.external(headless=True) == [bytes((192, 0, 2, 53))]
    store.apply(upserts(service("ns/dns", version="2")))
    assert server.external(headless=False) == []
    assert server.external(headless=True) == alone[:1]
    store.apply(deletes(service("ns/dns")))
    assert server.external(headless=True) == []


def test_in_the_middle_of_an_event_an_address_that_has_left_its_slice_is_no_endpoint() -> None:
    """The value is replaced first, the index of addresses after it; another thread may ask in between."""
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=print)
    store.apply(upserts(service("ns/dns"), endpoint_slice("ns/s", "dns", "10.1.0.1", "10.1.0.9")))
    server, name = Nameserver(store, 9, ["10.1.0.1"]), Name.from_text("ns.dns.cluster.local")
    of_slice = ["ns.dns.cluster.local. 9 IN A 10.1.0.1", "ns.dns.cluster.local. 9 IN A 10.1.0.9"]
    assert section(server.addresses(name, RRType.A, ZONE)) == of_slice
    (key,) = store.services.values
    value = store.services.values[key]
    for slices in ((), (value.slices[0]._replace(addresses=bytes((10, 1, 0, 9)), labels=None),)):
        store.services.values[key] = value.with_slices(slices)
        assert section(server.addresses(name, RRType.A, ZONE)) == of_slice[:1]
        assert server.external(headless=True) == [bytes((10, 1, 0, 1))]


def taken(cluster: Cluster, zone: str = "cluster.local.") -> ZoneTransfer:
    found = cluster.plugin.transfer(Name.from_text(zone))
    assert found is not None
    return found


def lines(cluster: Cluster) -> list[str]:
    return [
        line.replace("testns.svc.cluster.local.", "@").replace(" 5 IN ", " ")
        for line in section(list(taken(cluster).records))
    ]


WEB = service("testns/web", "10.0.0.1", "2001:db8::1", ports=["http/TCP/80", "/UDP/53"])


def test_a_transfer_shows_one_moment() -> None:
    cluster = Cluster(WEB, service("testns/zoo", "10.0.0.9", ports=[]))
    before = lines(cluster)
    found = taken(cluster)
    cluster.apply(
        *deletes(service("testns/zoo", "10.0.0.9", ports=[])),
        *upserts(service("testns/new", "10.0.0.8")),
    )
    assert len(list(found.records)) == len(before)
    assert lines(cluster) != before


def test_a_port_whose_name_is_too_long_has_no_name_of_its_own() -> None:
    """With its underscore: names of ports have at most 63 characters, their labels too."""
    long = service("testns/web", "10.0.0.1", ports=[f"{'x' * 63}/TCP/80", f"{'y' * 62}/TCP/81"])
    owners = {line.split()[0] for line in lines(Cluster(long))}
    assert owners == {"web.@", f"_{'y' * 62}._tcp.web.@"}


def test_an_endpoint_whose_name_is_too_long_has_no_srv_record() -> None:
    zone = ".".join(["y" * 60] * 3)
    found = endpoint_slice("testns/db-1", "db", f"10.0.0.1 host={'x' * 63}", "10.0.0.2 host=b")
    reply = Cluster(service("testns/db"), found, zones=zone).ask(f"db.testns.svc.{zone}. SRV")
    targets = [line.split()[-1] for line in section(reply.answer)]
    assert targets == [f"b.db.testns.svc.{zone}."]


@pytest.mark.parametrize(("count", "weight"), [(1, 100), (3, 33), (101, 1)])
def test_the_weight_of_the_name_of_pods(count: int, weight: int) -> None:
    """Pods in the network of their host share its address."""
    pods = (pod(f"testns/p{number}", "10.5.0.1") for number in range(count))
    reply = Cluster(*pods, pods="verified").ask("10-5-0-1.testns.pod.cluster.local. SRV")
    assert section(reply.answer)[0].split()[5] == str(weight)


@pytest.mark.parametrize("zone", ["other.local.", "testns.svc.cluster.local.", "in-addr.arpa."])
def test_no_such_zone(zone: str) -> None:
    assert Cluster(WEB).plugin.transfer(Name.from_text(zone)) is None


def test_before_the_cluster_was_read() -> None:
    with pytest.raises(
        LookupError, match=r"zone cluster\.local\.: the cluster has not been read yet"
    ):
        Cluster(synced=False).plugin.transfer(ZONE)
