"""Services by their external addresses; the whole replies stand in tests/scenarios/k8s_external."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hsdns.chain import Request
from hsdns.cluster.freshness import Dependencies, service_counter
from hsdns.cluster.objects import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Object,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from hsdns.corefile.tree import CorefileError
from hsdns.fastpath import Versions
from hsdns.plugins.k8s_external import K8sExternal, srv_records
from hsdns.plugins.whoami import Whoami
from hsdns.turns import AT_ONCE
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import deletes, endpoint_slice, meta, service, upserts
from tests.support.coroutines.eager import finish, turns
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.setup import set_up, setup_error


def external(path: str, *where: str, ports: tuple[str, ...] = ("http/TCP/80",)) -> Service:
    """A Service that is reached at some addresses, or names of load balancers."""
    listed = [
        ServicePort(int(number), name, protocol)
        for name, protocol, number in (p.split("/") for p in ports)
    ]
    ingress = [
        LoadBalancerIngress(hostname=each) if each.endswith("example.net") else LoadBalancerIngress(ip=each)
        for each in where
    ]  # fmt: skip
    return Service(
        meta(path),
        ServiceSpec(type="LoadBalancer", cluster_ips=["10.0.0.1"], ports=listed),
        ServiceStatus(LoadBalancerStatus(ingress)),
    )


class Outside:
    """The plugin beside a kubernetes plugin."""

    def __init__(self, text: str = "k8s_external example.org", *objects: Object, **options: Any):
        self.cluster = Cluster(*objects, **options)
        self.plugin = set_up(K8sExternal, text)
        self.plugin.find_handlers([Whoami(), self.plugin, self.cluster.plugin])

    def ask(self, question: str, below: Reply | None = None, **fields: Any) -> Reply:
        """The reply to `QNAME [QTYPE]`."""
        qname, _, qtype = question.partition(" ")
        request = make_request(qname, qtype or "A").replace(**fields)
        following = next_with(below or unwritten(2, "nothing below"))
        return finish(self.plugin.handle(request, following))


# --- setup ---


def test_a_zone_needs_room_for_the_names_of_its_servers() -> None:
    zone = ".".join(["x" * 60] * 4)
    assert "is too long for the names of its name servers" in setup_error(
        K8sExternal, f"k8s_external {zone}"
    )


def test_without_kubernetes_there_is_nothing_to_show() -> None:
    plugin = set_up(K8sExternal, "k8s_external example.org")
    with pytest.raises(CorefileError) as caught:
        plugin.find_handlers([Whoami(), plugin])
    assert str(caught.value) == (
        "Corefile:2:1: k8s_external needs a kubernetes plugin in the same server block; add it"
    )


def test_zones_are_those_of_the_block_unless_it_has_its_own() -> None:
    assert set_up(K8sExternal, "k8s_external", ["example.org"]).zones == (
        Name.from_text("example.org"),
    )


# --- answers ---


@pytest.mark.parametrize(
    ("where", "qtype", "answer"),
    [
        (
            ("192.0.2.1", "192.0.2.1", "lb.example.net", "192.0.2.2"),
            "A",
            [
                "web.testns.example.org. 5 IN A 192.0.2.1",
                "web.testns.example.org. 5 IN CNAME lb.example.net.",
                "lb.example.net. 60 IN A 198.51.100.1",
                "web.testns.example.org. 5 IN A 192.0.2.2",
            ],
        ),
        (
            ("lb.example.net", "192.0.2.1"),
            "SRV",
            [
                "web.testns.example.org. 5 IN SRV 0 25 80 lb.example.net.",
                "web.testns.example.org. 5 IN SRV 0 25 53 lb.example.net.",
                "web.testns.example.org. 5 IN SRV 0 25 80 web.testns.example.org.",
                "web.testns.example.org. 5 IN SRV 0 25 53 web.testns.example.org.",
            ],
        ),
    ],
)  # fmt: skip
def test_every_record_is_given_once(where: tuple[str, ...], qtype: str, answer: list[str]) -> None:
    outside = Outside(
        "k8s_external example.org",
        external("testns/web", *where, ports=("http/TCP/80", "dns/UDP/53")),
    )
    outside.cluster.runtime.resolver = lambda request: (
        reply(["lb.example.net. 60 IN A 198.51.100.1"])
        if request.query.qtype == 1
        else Reply(rcode=Rcode.NXDOMAIN)
    )
    found = outside.ask(f"web.testns.example.org. {qtype}")
    assert (found.rcode, found.aa, section(found.authority)) == (Rcode.NOERROR, True, [])
    assert section(found.answer) == answer
    assert section(found.additional) == (
        ["lb.example.net. 60 IN A 198.51.100.1", "web.testns.example.org. 5 IN A 192.0.2.1"]
        if qtype == "SRV"
        else []
    )


def test_a_truncated_lookup_is_told() -> None:
    outside = Outside("k8s_external example.org", external("testns/web", "lb.example.net"))
    outside.cluster.runtime.resolver = lambda request: Reply(tc=True)
    assert outside.ask("web.testns.example.org.").tc


@pytest.mark.parametrize("question", ["x.example.net.", "example.net."])
def test_names_outside_the_zones_are_passed_on(question: str) -> None:
    below = reply([f"{question} 60 IN A 192.0.2.9"])
    assert Outside().ask(question, below) is below


def test_what_falls_through_holds_until_the_cluster_has_it() -> None:
    outside = Outside("k8s_external example.org 2.0.192.in-addr.arpa {\nfallthrough\n}")
    below = reply(rcode=Rcode.NXDOMAIN)
    name = outside.ask("web.testns.example.org.", below)
    address = outside.ask("1.2.0.192.in-addr.arpa. PTR", below)
    assert name.still_holds is not None
    assert address.still_holds is not None
    assert name.still_holds()
    assert address.still_holds()
    outside.cluster.apply(*upserts(external("testns/web", "192.0.2.1")))
    assert not name.still_holds()
    assert not address.still_holds()


def test_what_two_plugins_pass_on_holds_for_both() -> None:
    outside = Outside("k8s_external example.org {\nfallthrough\n}")
    is_held = True
    below = reply(rcode=Rcode.NXDOMAIN).held(lambda: is_held)  # as `kubernetes` behind it says
    found = outside.ask("web.testns.example.org.", below)
    assert found.still_holds is not None
    assert found.still_holds()
    is_held = False
    assert not found.still_holds()


def test_the_option_namespaces_hides_names_and_addresses() -> None:
    outside = Outside(
        "k8s_external example.org 2.0.192.in-addr.arpa",
        external("other/web", "192.0.2.1"),
        existing=("testns", "other"),
        namespaces=("testns",),
    )
    assert outside.ask("web.other.example.org.").rcode == Rcode.NXDOMAIN
    assert outside.ask("1.2.0.192.in-addr.arpa. PTR").rcode == Rcode.NXDOMAIN


def test_endpoints_of_a_headless_service_are_this_server() -> None:
    outside = Outside(
        "k8s_external example.org {\nheadless\n}",
        service("testns/dns"),
        endpoint_slice("testns/dns-1", "dns", "192.0.2.53", "192.0.2.54"),
        local=["192.0.2.53"],
    )
    assert section(outside.ask("ns1.dns.example.org.").answer) == [
        "ns1.dns.example.org. 5 IN A 192.0.2.53",
        "ns1.dns.example.org. 5 IN A 192.0.2.54",
    ]
    plain = Outside("k8s_external example.org", local=["192.0.2.53", "fd00::1"])
    assert section(plain.ask("ns1.dns.example.org. AAAA").answer) == [
        "ns1.dns.example.org. 5 IN AAAA fd00::1"
    ]


@pytest.mark.parametrize(("qtype", "others"), [("A", 3), ("AAAA", 3), ("SRV", 9)])
def test_thousands_of_endpoints_are_answered_in_several_turns(qtype: str, others: int) -> None:
    count = 3 * AT_ONCE
    addresses = [f"172.16.{n >> 8}.{n & 255}" for n in range(count)]
    outside = Outside(
        "k8s_external example.org {\nheadless\n}",
        service("testns/db"),
        endpoint_slice("testns/db-1", "db", *addresses, addresses[0]),
    )
    request = make_request("db.testns.example.org.", qtype)
    found, turned = turns(outside.plugin.handle(request, next_with(Reply())))
    assert turned == others
    assert len(found.answer) == (0 if qtype == "AAAA" else count)
    assert len(found.additional) == (count if qtype == "SRV" else 0)


def test_a_service_that_changes_while_its_name_is_looked_up_is_answered_again() -> None:
    outside = Outside("k8s_external example.org", external("testns/web", "lb.example.net"))
    versions = Versions()
    changed = external("testns/web", "192.0.2.1")

    def resolve(request: Request) -> Reply:
        again = Service(meta("testns/web", "2"), changed.spec, changed.status)
        outside.cluster.apply(*upserts(again))
        versions.bump(service_counter(b"testns", b"web"))
        return reply(["lb.example.net. 60 IN A 198.51.100.1"])

    outside.cluster.runtime.resolver = resolve
    dependencies = Dependencies(versions)
    found = outside.ask("web.testns.example.org.", dependencies=dependencies)
    assert section(found.answer) == ["web.testns.example.org. 5 IN A 192.0.2.1"]
    assert not dependencies.hold


# --- the answer table ---


# --- zone transfers ---


def test_what_can_be_transferred() -> None:
    outside = Outside("k8s_external example.org 192.0.2.0/24", synced=False)
    zone, reverse = map(Name.from_text, ("example.org", "2.0.192.in-addr.arpa"))
    assert outside.plugin.transfer(Name.from_text("a.example.org")) is None
    assert outside.plugin.transfer(reverse) is None
    with pytest.raises(
        LookupError, match=r"zone example\.org\.: the cluster has not been read yet"
    ):
        outside.plugin.transfer(zone)


def test_a_transfer_is_of_one_moment() -> None:
    outside = Outside("k8s_external example.org", external("testns/web", "192.0.2.1"))
    found = outside.plugin.transfer(Name.from_text("EXAMPLE.org"))
    assert found is not None
    outside.cluster.apply(*deletes(external("testns/web")))
    assert section([found.soa])[0].startswith("example.org. 5 IN SOA ns1.dns.example.org.")
    assert section(list(found.records)) == [
        "example.org. 5 IN NS ns1.dns.example.org.",
        "web.testns.example.org. 5 IN A 192.0.2.1",
        "web.testns.example.org. 5 IN SRV 0 100 80 web.testns.example.org.",
        "_http._tcp.web.testns.example.org. 5 IN SRV 0 100 80 web.testns.example.org.",
    ]


def test_a_transfer_is_made_as_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A big zone would stop the server for seconds otherwise."""
    made: list[bytes] = []

    def counted(*args: Any) -> Iterator[RR]:
        made.append(args[2].lower)
        return srv_records(*args)

    monkeypatch.setattr("hsdns.plugins.k8s_external.srv_records", counted)
    services = [external(f"testns/web-{number}", "192.0.2.1") for number in range(9)]
    found = Outside("k8s_external example.org", *services).plugin.transfer(
        Name.from_text("example.org")
    )
    assert found is not None
    records = iter(found.records)
    assert [next(records).rrtype for _ in range(3)] == [RRType.NS, RRType.A, RRType.SRV]
    assert len(made) == 1


def test_names_that_are_too_long_and_namespaces_that_are_hidden_are_not_transferred() -> None:
    zone = ".".join(["x" * 60] * 3) + ".org"
    outside = Outside(
        f"k8s_external {zone}",
        external("testns/" + "y" * 63, "192.0.2.1"),
        external("other/web", "192.0.2.2"),
        external("testns/z", "192.0.2.3"),
    )
    found = outside.plugin.transfer(Name.from_text(zone))
    assert found is not None
    assert {rr.owner.to_text() for rr in found.records} == {
        f"{zone}.",
        f"z.testns.{zone}.",
        f"_http._tcp.z.testns.{zone}.",
    }
