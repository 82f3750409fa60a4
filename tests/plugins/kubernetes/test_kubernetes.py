"""The kubernetes plugin: the traps of CoreDNS's behaviour one by one, its options, its start.

Every row is a whole reply: status and flags, then each section with TTLs; a section that a row leaves out is empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.cluster import snapshot
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.cluster.objects import (
    Namespace,
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
from hsdns.cluster.source import Deliver, Report
from hsdns.cluster.store import Store, StoreSettings
from hsdns.corefile.tree import CorefileError
from hsdns.plugins import kubernetes
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.sources.api_access import WatchOptions
from hsdns.sources.api_server import ApiServer
from hsdns.sources.synthetic import Shape, Synthetic
from hsdns.wire.iana import Rcode, rcode_to_text
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import ROOT, Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, pod, service, upserts
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up

SERIAL = 1_700_000_000
ZONE = "testns.svc.cluster.local."


def soa(ttl: int = 5, serial: int = SERIAL, zone: str = "cluster.local.") -> str:
    """The SOA record as negative replies carry it."""
    return f"{zone} {min(ttl, 300)} IN SOA ns.dns.{zone} hostmaster.{zone} {serial} 7200 1800 86400 {ttl}"


def shown(found: Reply) -> dict[str, object]:
    """A reply in the form of the rows below."""
    flags = " ".join(name for name in ("aa", "tc", "ra", "ad") if getattr(found, name))
    parts: dict[str, object] = {"status": rcode_to_text(found.rcode), "flags": flags}
    for name in ("answer", "authority", "additional"):
        if records := section(getattr(found, name)):
            parts[name] = records
    return parts


def positive(*answer: str, additional: tuple[str, ...] = ()) -> dict[str, object]:
    """An authoritative answer."""
    found: dict[str, object] = {"status": "NOERROR", "flags": "aa", "answer": list(answer)}
    return found | ({"additional": list(additional)} if additional else {})


def negative(status: str, **fields: int | str) -> dict[str, object]:
    """NODATA (NOERROR), NXDOMAIN or SERVFAIL with the zone's SOA."""
    return {"status": status, "flags": "aa", "authority": [soa(**fields)]}  # type: ignore[arg-type]  # soa's own words


NODATA = negative("NOERROR")
NXDOMAIN = negative("NXDOMAIN")

WEB = service("testns/web", "10.0.0.1")
DB = service("testns/db")
DB_SLICE = endpoint_slice("testns/db-1", "db", "172.0.0.1 host=db-0", "172.0.0.2")


# The 25 traps -----------------------------------------------------------------------------------------------------


def test_trap_1_a_headless_service_without_ready_endpoints_does_not_exist() -> None:
    cluster = Cluster(DB, endpoint_slice("testns/db-1", "db", "172.0.0.1 ready=false"))
    assert shown(cluster.ask(f"db.{ZONE}")) == NXDOMAIN
    assert shown(cluster.ask(f"db.{ZONE} AAAA")) == NXDOMAIN


def test_trap_2_soa_is_never_nxdomain() -> None:
    assert shown(Cluster(WEB).ask(f"nope.{ZONE} SOA")) == NODATA


@pytest.mark.parametrize("qname", ["cluster.local.", "svc.cluster.local.", ZONE])
def test_trap_3_txt_of_names_without_records_is_nxdomain(qname: str) -> None:
    assert shown(Cluster(WEB).ask(f"{qname} TXT")) == NXDOMAIN
    assert shown(Cluster(WEB).ask(f"{qname} A")) == NODATA


@pytest.mark.parametrize(("count", "weight"), [(1, 100), (2, 50), (7, 14), (100, 1), (101, 1)])
def test_trap_4_weight_is_the_floor_of_100_by_all_entries(count: int, weight: int) -> None:
    addresses = [f"10.1.{number // 250}.{number % 250}" for number in range(count)]
    cluster = Cluster(DB, endpoint_slice("testns/db-1", "db", *addresses))
    found = cluster.ask(f"db.{ZONE} SRV")
    assert {line.split()[5] for line in section(found.answer)} == {str(weight)}
    assert len(found.answer) == count


def test_trap_4_counts_both_families_duplicates_and_entries_without_a_port() -> None:
    dual = service("testns/dual", "10.0.0.7", "fd00::7")
    assert shown(Cluster(dual).ask(f"dual.{ZONE} SRV")) == positive(
        f"dual.{ZONE} 5 IN SRV 0 50 80 dual.{ZONE}",
        additional=(f"dual.{ZONE} 5 IN A 10.0.0.7", f"dual.{ZONE} 5 IN AAAA fd00::7"),
    )
    mixed = endpoint_slice(
        "testns/db-1", "db", "172.0.0.1 host=a", ports=("http/TCP/80", "none/TCP/")
    )
    again = endpoint_slice("testns/db-2", "db", "172.0.0.1 host=a", ports=("http/TCP/80",))
    assert shown(Cluster(DB, mixed, again).ask(f"db.{ZONE} SRV")) == positive(
        f"db.{ZONE} 5 IN SRV 0 33 80 a.db.{ZONE}", additional=(f"a.db.{ZONE} 5 IN A 172.0.0.1",)
    )


def test_trap_5_an_endpoint_with_a_hostname_has_no_dashed_name() -> None:
    cluster = Cluster(DB, DB_SLICE)
    assert shown(cluster.ask(f"172-0-0-1.db.{ZONE}")) == NXDOMAIN
    assert shown(cluster.ask(f"db-0.db.{ZONE}")) == positive(f"db-0.db.{ZONE} 5 IN A 172.0.0.1")
    assert shown(cluster.ask(f"172-0-0-2.db.{ZONE}")) == positive(
        f"172-0-0-2.db.{ZONE} 5 IN A 172.0.0.2"
    )


def test_trap_6_one_ptr_for_a_cluster_ip_many_for_endpoints() -> None:
    twin = service("testns/web2", "10.0.0.1")
    other = endpoint_slice("testns/other-1", "other", "172.0.0.1 host=x")
    cluster = Cluster(WEB, twin, DB, DB_SLICE, other)
    assert len(cluster.ask("1.0.0.10.in-addr.arpa. PTR").answer) == 1
    assert shown(cluster.ask("1.0.0.172.in-addr.arpa. PTR")) == positive(
        f"1.0.0.172.in-addr.arpa. 5 IN PTR db-0.db.{ZONE}",
        f"1.0.0.172.in-addr.arpa. 5 IN PTR x.other.{ZONE}",
    )


@pytest.mark.parametrize("rcode", [Rcode.SERVFAIL, Rcode.NXDOMAIN, Rcode.REFUSED, Rcode.NOERROR])
def test_trap_7_a_failed_external_name_hides_behind_a_bare_cname(rcode: int) -> None:
    cluster = Cluster(service("testns/ext", external="www.example.org"))
    cluster.runtime.resolver = lambda request: Reply(rcode=rcode)
    assert shown(cluster.ask(f"ext.{ZONE}")) == positive(f"ext.{ZONE} 5 IN CNAME www.example.org.")


def test_trap_8_a_cname_inside_the_zone_vanishes_without_data() -> None:
    inside = service("testns/in", external=f"web.{ZONE}")
    gone = service("testns/gone", external=f"nope.{ZONE}")
    cluster = Cluster(WEB, inside, gone)
    assert shown(cluster.ask(f"in.{ZONE}")) == positive(
        f"in.{ZONE} 5 IN CNAME web.{ZONE}", f"web.{ZONE} 5 IN A 10.0.0.1"
    )
    assert shown(cluster.ask(f"in.{ZONE} AAAA")) == NODATA
    assert shown(cluster.ask(f"gone.{ZONE}")) == NODATA


def test_trap_9_servfail_before_sync_has_aa_and_soa() -> None:
    cluster = Cluster(synced=False, existing=())
    assert shown(cluster.ask(f"web.{ZONE}")) == negative("SERVFAIL", serial=0)


def test_trap_10_fallthrough_comes_before_the_sync_check() -> None:
    below = reply(["1.0.0.10.in-addr.arpa. 60 IN PTR host.example.org."])
    cluster = Cluster(synced=False, fallthrough=(Name.from_text("in-addr.arpa"),))
    assert cluster.ask("1.0.0.10.in-addr.arpa. PTR", below).answer == below.answer
    assert cluster.ask(f"web.{ZONE}", below).rcode == Rcode.SERVFAIL


def test_trap_11_the_default_ttl_is_5() -> None:
    assert shown(Cluster(WEB).ask(f"web.{ZONE}")) == positive(f"web.{ZONE} 5 IN A 10.0.0.1")


@pytest.mark.parametrize(("ttl", "record_ttl"), [(0, 0), (30, 30), (300, 300), (3600, 300)])
def test_trap_12_the_soa_record_ttl_is_capped_and_its_minimum_is_not(
    ttl: int, record_ttl: int
) -> None:
    authority = section(Cluster(ttl=ttl).ask(f"nope.{ZONE}").authority)
    assert authority == [
        f"cluster.local. {record_ttl} IN SOA ns.dns.cluster.local. hostmaster.cluster.local. "
        f"0 7200 1800 86400 {ttl}"
    ]


def test_trap_13_names_in_rdata_are_lower_case_and_the_apex_ns_ignores_case() -> None:
    """A difference on purpose: CoreDNS answers NODATA for an apex in another case."""
    cluster = Cluster(DB, DB_SLICE, local=["192.0.2.1"])
    assert shown(cluster.ask("CLUSTER.local. NS")) == positive(
        "cluster.local. 5 IN NS ns.dns.cluster.local.",
        additional=("ns.dns.cluster.local. 5 IN A 192.0.2.1",),
    )
    assert section(cluster.ask("DB-0.db.testns.svc.CLUSTER.local. SRV").answer) == [
        f"db-0.db.{ZONE} 5 IN SRV 0 100 80 db-0.db.{ZONE}"
    ]


def test_trap_14_answers_stay_fresh_while_the_server_stops() -> None:
    """A difference on purpose: CoreDNS freezes its data in lameduck."""
    cluster = Cluster(DB, DB_SLICE)
    cluster.runtime.stopping = True
    cluster.apply(*upserts(endpoint_slice("testns/db-1", "db", "172.0.0.9 host=db-0", version="2")))
    assert section(cluster.ask(f"db-0.db.{ZONE}").answer) == [f"db-0.db.{ZONE} 5 IN A 172.0.0.9"]


def test_trap_15_the_plugin_is_ready_from_sync_on_and_stays_so() -> None:
    """The other half of the difference, 503 on /ready from SIGTERM on, is tested with `ready`."""
    cluster = Cluster(synced=False)
    assert not cluster.plugin.ready()
    cluster.apply(Synced())
    assert cluster.plugin.ready()


def test_trap_16_an_absent_ready_condition_means_ready() -> None:
    cluster = Cluster(DB, endpoint_slice("testns/db-1", "db", "172.0.0.1", "172.0.0.2 ready=true"))
    assert len(cluster.ask(f"db.{ZONE}").answer) == 2


def test_trap_17_a_slice_belongs_to_a_service_by_its_label_alone() -> None:
    cluster = Cluster(DB, endpoint_slice("testns/db", None, "172.0.0.1"))
    assert shown(cluster.ask(f"db.{ZONE}")) == NXDOMAIN
    assert cluster.ask("1.0.0.172.in-addr.arpa. PTR").rcode == Rcode.NXDOMAIN


def test_trap_18_slices_add_up_and_addresses_count_once() -> None:
    one = endpoint_slice("testns/db-1", "db", "172.0.0.1", "172.0.0.2")
    two = endpoint_slice("testns/db-2", "db", "172.0.0.2", "172.0.0.3")
    assert shown(Cluster(DB, one, two).ask(f"db.{ZONE}")) == positive(
        *(f"db.{ZONE} 5 IN A 172.0.0.{number}" for number in (1, 2, 3))
    )


def test_trap_19_a_dashed_ipv6_label_never_ends_in_a_dash() -> None:
    cluster = Cluster(DB, endpoint_slice("testns/db-1", "db", "5678:abcd::", address_type="IPv6"))
    assert shown(cluster.ask(f"5678-abcd--0.db.{ZONE} AAAA")) == positive(
        f"5678-abcd--0.db.{ZONE} 5 IN AAAA 5678:abcd::"
    )
    assert shown(cluster.ask(f"5678-abcd--0.db.{ZONE} A")) == NODATA


def test_trap_20_the_chain_does_not_look_at_the_class() -> None:
    """Whether another class gets here is decided by the server: it does where `forward` stands in a block."""
    assert shown(Cluster(WEB).ask(f"web.{ZONE}", qclass="CH")) == positive(
        f"web.{ZONE} 5 IN A 10.0.0.1"
    )


def test_trap_21_no_names_without_the_namespace_object_but_ptr() -> None:
    cluster = Cluster(WEB, DB, DB_SLICE, pods="insecure")
    cluster.apply(*deletes(namespace("testns")))
    for question in (f"web.{ZONE}", f"db.{ZONE}", ZONE, "1-2-3-4.testns.pod.cluster.local."):
        assert shown(cluster.ask(question)) == NXDOMAIN, question
    assert cluster.ask("1.0.0.10.in-addr.arpa. PTR").rcode == Rcode.NOERROR
    assert cluster.ask("1.0.0.172.in-addr.arpa. PTR").rcode == Rcode.NOERROR


def test_trap_22_additional_records_are_the_addresses_of_srv_targets() -> None:
    """How they are compressed (always: a difference) and cut with TC is tested with the encoder."""
    assert shown(Cluster(DB, DB_SLICE).ask(f"db.{ZONE} SRV")) == positive(
        f"db.{ZONE} 5 IN SRV 0 50 80 db-0.db.{ZONE}",
        f"db.{ZONE} 5 IN SRV 0 50 80 172-0-0-2.db.{ZONE}",
        additional=(f"db-0.db.{ZONE} 5 IN A 172.0.0.1", f"172-0-0-2.db.{ZONE} 5 IN A 172.0.0.2"),
    )


def test_trap_23_the_plugin_leaves_edns_to_the_encoder() -> None:
    assert Cluster(WEB).ask(f"web.{ZONE}").edns_options is None


def test_trap_24_the_version_has_a_ttl_of_its_own() -> None:
    cluster = Cluster(ttl=30)
    assert shown(cluster.ask("dns-version.cluster.local. TXT")) == positive(
        'dns-version.cluster.local. 28800 IN TXT "1.1.0"'
    )
    for question in ("dns-version.cluster.local. A", "x.dns-version.cluster.local. TXT"):
        assert shown(cluster.ask(question)) == negative("NXDOMAIN", ttl=30, serial=0), question


def test_trap_25_a_transfer_is_refused_without_aa_and_soa() -> None:
    found = Cluster().ask("cluster.local. AXFR")
    assert shown(found) == {"status": "REFUSED", "flags": ""}
    assert not found.written


# Questions --------------------------------------------------------------------------------------------------------

MANY = (
    WEB,
    service("testns/two", "10.0.0.2", ports=("http/TCP/80", "dns/UDP/53")),
    service("testns/unnamed", "10.0.0.3", ports=("/TCP/8080",)),
    service("testns/noports", "10.0.0.4", ports=()),
    service("testns/extip", external="10.9.8.7"),
    service("testns/self", external=f"self.{ZONE}"),
    service("testns/a", external=f"b.{ZONE}"),
    service("testns/b", external=f"a.{ZONE}"),
    endpoint_slice(
        "testns/two-1", "two", "172.0.1.1 host=ep", ports=("http/TCP/8080", "dns/UDP/1053")
    ),
    DB,
    DB_SLICE,
    service("testns/bare"),
    endpoint_slice("testns/bare-1", "bare", "172.0.2.1 host=b", ports=()),
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (f"_http._tcp.two.{ZONE} A", positive(f"_http._tcp.two.{ZONE} 5 IN A 10.0.0.2")),
        (f"http.tcp.two.{ZONE} A", positive(f"http.tcp.two.{ZONE} 5 IN A 10.0.0.2")),
        (f"_HTTP._Tcp.TWO.{ZONE} A", positive(f"_http._tcp.two.{ZONE} 5 IN A 10.0.0.2")),
        (f"_http._udp.two.{ZONE} A", NXDOMAIN),
        (
            f"_http._tcp.two.{ZONE} SRV",
            positive(
                f"_http._tcp.two.{ZONE} 5 IN SRV 0 100 80 two.{ZONE}",
                additional=(f"two.{ZONE} 5 IN A 10.0.0.2",),
            ),
        ),
        (
            f"two.{ZONE} SRV",
            positive(
                f"two.{ZONE} 5 IN SRV 0 50 80 two.{ZONE}",
                f"two.{ZONE} 5 IN SRV 0 50 53 two.{ZONE}",
                additional=(f"two.{ZONE} 5 IN A 10.0.0.2",),
            ),
        ),
        (
            f"ep.two.{ZONE} SRV",
            positive(
                f"ep.two.{ZONE} 5 IN SRV 0 50 8080 ep.two.{ZONE}",
                f"ep.two.{ZONE} 5 IN SRV 0 50 1053 ep.two.{ZONE}",
                additional=(f"ep.two.{ZONE} 5 IN A 172.0.1.1",),
            ),
        ),
        (
            f"_._tcp.unnamed.{ZONE} SRV",
            positive(
                f"_._tcp.unnamed.{ZONE} 5 IN SRV 0 100 8080 unnamed.{ZONE}",
                additional=(f"unnamed.{ZONE} 5 IN A 10.0.0.3",),
            ),
        ),
        (f"noports.{ZONE} A", positive(f"noports.{ZONE} 5 IN A 10.0.0.4")),
        (f"noports.{ZONE} SRV", NODATA),
        (f"_http._tcp.noports.{ZONE} A", NXDOMAIN),
        (f"bare.{ZONE} A", positive(f"bare.{ZONE} 5 IN A 172.0.2.1")),
        (f"bare.{ZONE} SRV", NODATA),
        (f"_tcp.two.{ZONE} A", NXDOMAIN),
        (f"x.y.z.two.{ZONE} A", NXDOMAIN),
        (f"*.{ZONE} A", NXDOMAIN),
        (f"web.{ZONE} AAAA", NODATA),
        *(
            (f"web.{ZONE} {qtype}", NODATA)
            for qtype in "TXT MX CNAME PTR NS SOA ANY HTTPS DS CAA".split()
        ),
        *(
            (f"nope.{ZONE} {qtype}", NXDOMAIN)
            for qtype in "A TXT CNAME PTR MX NS ANY SRV HTTPS".split()
        ),
        *(
            (f"cluster.local. {qtype}", NODATA)
            for qtype in "A AAAA ANY DS MX SRV CNAME PTR".split()
        ),
        ("cluster.local. SOA", positive(soa())),
        ("svc.cluster.local.", NODATA),
        ("pod.cluster.local.", NODATA),
        (ZONE, NODATA),
        ("nons.svc.cluster.local.", NXDOMAIN),
        ("foo.cluster.local.", NXDOMAIN),
        ("dns.cluster.local.", NXDOMAIN),
        (f"extip.{ZONE} A", NXDOMAIN),
        (f"extip.{ZONE} SOA", NODATA),
        (f"self.{ZONE} A", NODATA),
        (f"self.{ZONE} CNAME", positive(f"self.{ZONE} 5 IN CNAME self.{ZONE}")),
        (f"a.{ZONE} A", NODATA),
        (f"a.{ZONE} SRV", NODATA),
        (f"a.{ZONE} TXT", NODATA),
        (f"x.a.{ZONE} A", NXDOMAIN),
        (f"_http._tcp.a.{ZONE} A", NXDOMAIN),
        ("0.0.172.in-addr.arpa. PTR", negative("NXDOMAIN", zone="in-addr.arpa.")),
        ("9.9.9.9.in-addr.arpa. PTR", negative("NXDOMAIN", zone="in-addr.arpa.")),
        ("1.0.0.10.in-addr.arpa. A", negative("NXDOMAIN", zone="in-addr.arpa.")),
        ("in-addr.arpa. SOA", positive(soa(zone="in-addr.arpa."))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_question(question: str, expected: dict[str, object]) -> None:
    assert shown(Cluster(*MANY).ask(question)) == expected


def test_a_port_number_above_16_bits_does_not_break_the_answer() -> None:
    cluster = Cluster(service("testns/odd", "10.0.0.9", ports=("p/TCP/70000",)))
    assert cluster.ask(f"odd.{ZONE} SRV").rcode == Rcode.NOERROR


# Options ----------------------------------------------------------------------------------------------------------

PODS = (pod("testns/p", "10.5.0.1"), pod("other/q", "10.5.0.2"), pod("testns/six", "fd00::5"))


@pytest.mark.parametrize(
    ("mode", "qname", "found"),
    [
        ("disabled", "10-5-0-1.testns", None),
        ("insecure", "1-2-3-4.testns", "A 1.2.3.4"),
        ("insecure", "1-2-3-999.testns", None),
        ("insecure", "01-2-3-4.testns", None),
        ("insecure", "1-2-3-4.nons", None),
        ("insecure", "fd00--5.testns", "AAAA fd00::5"),
        ("insecure", "x.y.1-2-3-4.testns", "A 1.2.3.4"),
        ("verified", "10-5-0-1.testns", "A 10.5.0.1"),
        ("verified", "10-5-0-2.testns", None),
        ("verified", "fd00--5.testns", "AAAA fd00::5"),
        ("verified", "fd00-0-0-0-0-0-0-5.testns", None),
    ],
)
def test_option_pods(mode: str, qname: str, found: str | None) -> None:
    cluster = Cluster(*PODS, pods=mode)
    name = f"{qname}.pod.cluster.local."
    qtype = found.split()[0] if found else "A"
    expected = positive(f"{name} 5 IN {found}") if found else NXDOMAIN
    assert shown(cluster.ask(f"{name} {qtype}")) == expected
    assert shown(cluster.ask("testns.pod.cluster.local.")) == (
        NXDOMAIN if mode == "disabled" else NODATA
    )


@pytest.mark.parametrize(
    ("mode", "pods", "weight"), [("insecure", 0, 100), ("verified", 3, 33), ("verified", 101, 1)]
)
def test_pods_answer_srv_with_port_0(mode: str, pods: int, weight: int) -> None:
    cluster = Cluster(*(pod(f"testns/p{number}", "1.2.3.4") for number in range(pods)), pods=mode)
    name = "1-2-3-4.testns.pod.cluster.local."
    assert shown(cluster.ask(f"x.{name} SRV")) == positive(
        f"x.{name} 5 IN SRV 0 {weight} 0 {name}", additional=(f"{name} 5 IN A 1.2.3.4",)
    )


def test_option_endpoint_pod_names() -> None:
    found = endpoint_slice("testns/db-1", "db", "172.0.0.1 pod=db-x", f"172.0.0.2 pod={'p' * 64}")
    cluster = Cluster(DB, found, endpoint_pod_names=True)
    assert cluster.ask(f"db-x.db.{ZONE}").rcode == Rcode.NOERROR
    assert cluster.ask(f"172-0-0-1.db.{ZONE}").rcode == Rcode.NXDOMAIN
    assert cluster.ask(f"172-0-0-2.db.{ZONE}").rcode == Rcode.NOERROR
    assert Cluster(DB, found).ask(f"db-x.db.{ZONE}").rcode == Rcode.NXDOMAIN


def test_option_ignore_empty_service() -> None:
    cluster = Cluster(WEB, DB, ignore=True)
    assert shown(cluster.ask(f"web.{ZONE}")) == NXDOMAIN
    cluster.apply(*upserts(endpoint_slice("testns/web-1", "web", "172.0.3.1")))
    assert cluster.ask(f"web.{ZONE}").rcode == Rcode.NOERROR


def test_option_noendpoints() -> None:
    cluster = Cluster(WEB, DB, DB_SLICE, noendpoints=True)
    assert shown(cluster.ask(f"db.{ZONE}")) == NXDOMAIN
    assert shown(cluster.ask(f"db-0.db.{ZONE}")) == NXDOMAIN
    assert cluster.ask(f"web.{ZONE}").rcode == Rcode.NOERROR
    assert cluster.ask("1.0.0.10.in-addr.arpa. PTR").rcode == Rcode.NOERROR
    assert cluster.ask("1.0.0.172.in-addr.arpa. PTR").rcode == Rcode.NXDOMAIN


def test_option_namespaces_hides_forward_and_reverse_names() -> None:
    objects = (WEB, service("other/web", "10.0.0.8"), namespace("other"))
    assert Cluster(*objects).ask("web.other.svc.cluster.local.").rcode == Rcode.NOERROR
    narrow = Cluster(*objects, namespaces=("testns",))
    assert shown(narrow.ask("web.other.svc.cluster.local.")) == NXDOMAIN
    assert narrow.ask("8.0.0.10.in-addr.arpa. PTR").rcode == Rcode.NXDOMAIN
    assert narrow.ask(f"web.{ZONE}").rcode == Rcode.NOERROR


def test_option_labels_and_namespace_labels() -> None:
    shown_service = service("testns/web", "10.0.0.1", labels={"app": "web"})
    cluster = Cluster(
        shown_service, service("testns/x", "10.0.0.2"), labels=Selector.from_text("app=web")
    )
    assert cluster.ask(f"web.{ZONE}").rcode == Rcode.NOERROR
    assert cluster.ask(f"x.{ZONE}").rcode == Rcode.NXDOMAIN
    by_namespace = Cluster(
        WEB,
        service("testns/y", "10.0.0.3"),
        existing=(),
        namespace_labels=Selector.from_text("team in (a, b)"),
    )
    by_namespace.apply(*upserts(namespace("testns", {"team": "c"})))
    assert by_namespace.ask(f"web.{ZONE}").rcode == Rcode.NXDOMAIN
    by_namespace.apply(*upserts(namespace("testns", {"team": "b"})))
    assert by_namespace.ask(f"web.{ZONE}").rcode == Rcode.NOERROR
    assert by_namespace.ask("3.0.0.10.in-addr.arpa. PTR").rcode == Rcode.NOERROR


def test_option_fallthrough_for_all_zones_and_for_some() -> None:
    below = reply([f"nope.{ZONE} 60 IN A 192.0.2.9"])
    assert Cluster(fallthrough=(ROOT,)).ask(f"nope.{ZONE}", below).answer == below.answer
    other = Cluster(fallthrough=(Name.from_text("example.org"),))
    assert shown(other.ask(f"nope.{ZONE}", below)) == negative("NXDOMAIN", serial=0)
    nodata = Cluster(WEB, fallthrough=(ROOT,))
    assert shown(nodata.ask(f"web.{ZONE} AAAA", below)) == NODATA


def test_a_reply_from_below_holds_until_the_cluster_has_the_name() -> None:
    cluster = Cluster(fallthrough=(ROOT,))
    question = "1.0.0.172.in-addr.arpa. PTR"
    found = cluster.ask(question, reply(rcode=Rcode.NXDOMAIN))
    assert found.still_holds is not None
    cluster.apply(*upserts(WEB))
    assert found.still_holds()
    cluster.apply(*upserts(DB_SLICE))
    assert not found.still_holds()
    assert section(cluster.ask(question).answer) == [
        f"1.0.0.172.in-addr.arpa. 5 IN PTR db-0.db.{ZONE}"
    ]


def test_names_outside_the_zones_are_passed_on() -> None:
    below = reply(["www.example.org. 60 IN A 192.0.2.9"])
    assert Cluster().ask("www.example.org.", below) is below


def test_ptr_targets_are_in_the_first_zone_that_is_not_reverse() -> None:
    swapped = Cluster(WEB, zones="10.in-addr.arpa other.test cluster.local")
    assert section(swapped.ask("1.0.0.10.in-addr.arpa. PTR").answer) == [
        "1.0.0.10.in-addr.arpa. 5 IN PTR web.testns.svc.other.test."
    ]
    bare = Cluster(WEB, zones="in-addr.arpa cluster.local")
    assert section(bare.ask("1.0.0.10.in-addr.arpa. PTR").answer) == [
        "1.0.0.10.in-addr.arpa. 5 IN PTR web.testns.svc.in-addr.arpa."
    ]


# External names, name servers -------------------------------------------------------------------------------------


def test_an_external_name_is_looked_up_through_the_whole_server() -> None:
    cluster = Cluster(service("testns/ext", external="WWW.example.org"))
    asked = []

    def resolver(request: object) -> Reply:
        asked.append(request)
        return reply(["www.example.org. 3600 IN A 192.0.2.1"], tc=True)

    cluster.runtime.resolver = resolver
    found = cluster.ask(f"ext.{ZONE}")
    assert shown(found) == positive(
        f"ext.{ZONE} 5 IN CNAME www.example.org.", "www.example.org. 3600 IN A 192.0.2.1"
    ) | {"flags": "aa tc"}
    assert [request.query.qname.to_text() for request in asked] == ["www.example.org."]  # type: ignore[attr-defined]  # Requests
    assert section(cluster.ask(f"ext.{ZONE} CNAME").answer) == [
        f"ext.{ZONE} 5 IN CNAME www.example.org."
    ]
    assert len(asked) == 1


def test_a_dropped_lookup_leaves_no_cname() -> None:
    cluster = Cluster(service("testns/ext", external="www.example.org"))
    cluster.runtime.resolver = lambda request: Reply(dropped=True)
    assert shown(cluster.ask(f"ext.{ZONE}")) == NODATA


@pytest.mark.parametrize(
    ("objects", "names", "addresses"),
    [
        ((), ["ns.dns.cluster.local."], ["A 192.0.2.1", "AAAA fd00::1"]),
        (
            (
                service("testns/dns", "10.0.0.10"),
                endpoint_slice("testns/dns-1", "dns", "192.0.2.1"),
            ),
            [f"dns.{ZONE}"],
            ["A 10.0.0.10"],
        ),
        (
            (
                service("testns/dns"),
                endpoint_slice("testns/dns-1", "dns", "192.0.2.1 host=a", "192.0.2.2"),
            ),
            [f"a.dns.{ZONE}", f"192-0-2-2.dns.{ZONE}"],
            ["A 192.0.2.1", "A 192.0.2.2"],
        ),
    ],
    ids=["itself", "cluster-ip", "headless"],
)
def test_name_servers(objects: tuple[object, ...], names: list[str], addresses: list[str]) -> None:
    cluster = Cluster(*objects, local=["192.0.2.1", "fd00::1"])  # type: ignore[arg-type]  # rows of objects
    found = cluster.ask("cluster.local. NS")
    assert [line.split()[4] for line in section(found.answer)] == names
    assert [" ".join(line.split()[3:]) for line in section(found.additional)] == addresses
    wanted = [text for text in addresses if text.startswith("A ")]
    assert [
        " ".join(line.split()[3:]) for line in section(cluster.ask("ns.dns.cluster.local.").answer)
    ] == wanted


@pytest.mark.parametrize(
    ("qtype", "status"), [("TXT", "NXDOMAIN"), ("PTR", "NXDOMAIN"), ("MX", "NOERROR"), ("SRV", "NOERROR"),
                          ("CNAME", "NOERROR"), ("NS", "NOERROR"), ("ANY", "NOERROR")]
)  # fmt: skip
def test_other_types_of_the_name_server(qtype: str, status: str) -> None:
    cluster = Cluster(local=["192.0.2.1"])
    assert shown(cluster.ask(f"ns.dns.cluster.local. {qtype}")) == negative(status, serial=0)


# Setup and start --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kubernetes {\n ttll 5\n}", 'unknown property "ttll" of kubernetes; did you mean "ttl"?'),
        ("kubernetes {\n ttl 3601\n}", "3601 is out of range, allowed is 0 to 3600"),
        ("kubernetes {\n pods maybe\n}", '"maybe" is not one of: disabled, insecure, verified'),
        (
            "kubernetes {\n ignore all\n}",
            '"all" cannot be ignored; the only choice is empty_service',
        ),
        ("kubernetes {\n labels =\n}", '"=" is not a label selector; write for example "app=web"'),
        (
            "kubernetes {\n zonal yes\n}",
            'property "zonal" takes no argument, found 1',
        ),
        (
            "kubernetes {\n multicluster\n}",
            'property "multicluster" takes at least 1 argument, found 0',
        ),
        (
            "kubernetes {\n endpoint ftp://192.0.2.1\n}",
            '"ftp://192.0.2.1" is not the address of an API server; write it like https://10.96.0.1:443',
        ),
        (
            "kubernetes {\n tls cert key\n}",
            'property "tls" takes 3 arguments, found 2',
        ),
        (
            "kubernetes {\n kubeconfig a b c\n}",
            'property "kubeconfig" takes 1 to 2 arguments, found 3',
        ),
        (
            "kubernetes 10.in-addr.arpa",
            "kubernetes needs a forward zone for the names in PTR records; "
            "add for example cluster.local",
        ),
        (
            "kubernetes {\n namespaces a\n namespace_labels b=c\n}",
            '"namespaces" and "namespace_labels" of kubernetes exclude each other',
        ),
        (
            "kubernetes {\n source\n}",
            '"source" needs the name of a source, for example "manifests"',
        ),
    ],
)
def test_setup_refuses(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        set_up(Kubernetes, text)
    assert caught.value.message == message


def test_setup_reads_every_option_and_warns_of_those_without_effect() -> None:
    warnings: list[str] = []
    plugin = set_up(
        Kubernetes,
        "kubernetes cluster.local 10.0.0.0/24 {\n namespaces a b\n pods insecure\n endpoint_pod_names\n ttl 30\n"
        " noendpoints\n ignore empty_service\n fallthrough\n startup_timeout 0s\n apiserver_qps 5.5\n"
        " labels app in (x,y), tier\n}",
        warnings=warnings,
    )
    assert [zone.to_text() for zone in plugin.zones] == ["cluster.local.", "0.0.10.in-addr.arpa."]
    assert plugin._options["ttl"] == 30
    assert len(warnings) == 1
    assert "apiserver_qps" in warnings[0]


def test_start_outside_of_a_cluster_says_what_to_do() -> None:
    plugin = set_up(Kubernetes, "kubernetes cluster.local")
    with pytest.raises(CorefileError) as caught:
        finish(plugin.start(FakeRuntime()))
    assert caught.value.message == (
        'not in a cluster: KUBERNETES_SERVICE_HOST is not set; give "endpoint URL" or "kubeconfig FILE" in the '
        'kubernetes block to reach a cluster from outside; to serve a cluster from files add "source manifests PATH" '
        'to the kubernetes block, or start with "hsdns serve -conf COREFILE -source manifests PATH"'
    )


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        pytest.param("", WatchOptions(), id="nothing"),
        pytest.param("namespaces a b", WatchOptions(namespaces=("a", "b")), id="namespaces"),
        pytest.param("labels app == web, tier in (b,a)", WatchOptions(labels="app=web,tier in (a,b)"), id="labels"),
        pytest.param("namespace_labels dns", WatchOptions(namespace_labels="dns"), id="namespace_labels"),
        pytest.param("noendpoints", WatchOptions(endpoints=False), id="noendpoints"),
        pytest.param("pods insecure", WatchOptions(), id="pods insecure"),
        pytest.param("pods verified", WatchOptions(pods=True), id="pods verified"),
    ],
)  # fmt: skip
def test_what_the_api_server_is_asked_for(lines: str, options: WatchOptions) -> None:
    plugin = set_up(
        Kubernetes, f"kubernetes cluster.local {{\n endpoint http://192.0.2.1\n {lines}\n}}"
    )
    assert isinstance(plugin.source, ApiServer)
    assert plugin.source.options == options


def test_files_that_are_missing_are_warnings_with_their_place() -> None:
    warnings: list[str] = []
    text = "kubernetes cluster.local {\n endpoint 192.0.2.1 192.0.2.2\n tls /nowhere/c /nowhere/k /nowhere/ca\n}"
    set_up(Kubernetes, text, warnings=warnings)
    assert warnings[0] == (
        'Corefile:3:2: only the first endpoint, "https://192.0.2.1", is used; "192.0.2.2" has no effect'
    )
    assert warnings[1].startswith("Corefile:3:2: cannot read /nowhere/c for TLS")
    assert len(warnings) == 4


SETTINGS = {"namespaces": "", "pods": "disabled", "source": str(Synthetic(Shape()))}


class Steered(Synthetic):
    """A source that was last heard of when the test says."""

    def __init__(self) -> None:
        super().__init__(Shape(services=0))
        self.silent_for = 0.0

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver nothing."""

    def silence(self, now: float) -> float:
        """As steered."""
        return self.silent_for


def steered(text: str) -> tuple[Kubernetes, Steered, FakeRuntime]:
    plugin = set_up(Kubernetes, f"kubernetes cluster.local {{\n source synthetic\n{text}\n}}")
    plugin.watch.source = source = Steered()
    runtime = FakeRuntime()
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    return plugin, source, runtime


@pytest.mark.parametrize(
    ("text", "silent_for", "ready"),
    [
        pytest.param("", 1e9, True, id="as CoreDNS"),
        pytest.param("max_silence 90s", 89.0, True, id="strict, heard of"),
        pytest.param("max_silence 90s", 91.0, False, id="strict, silent"),
    ],
)
def test_ready_while_the_api_server_is_away(text: str, silent_for: float, ready: bool) -> None:
    plugin, source, _ = steered(text)
    assert not plugin.ready()
    plugin.store.apply([Synced()])
    source.silent_for = silent_for
    assert plugin.ready() is ready
    assert plugin.may_relapse is bool(text)


def test_a_snapshot_is_served_until_the_cluster_has_been_read(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    store = Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)
    objects: list[Object] = [Namespace(ObjectMeta(name="default"))]
    for name, address in (("kept", "10.96.0.1"), ("gone", "10.96.0.2")):
        spec = ServiceSpec(cluster_ip=address)
        objects.append(Service(ObjectMeta(name=name, namespace="default"), spec))
    store.apply([*map(Upserted, objects), Synced()])
    path.write_bytes(
        b"".join(snapshot.pieces(store, version="0", saved=1_700_000_000.0, settings=SETTINGS))
    )
    path.chmod(0o600)

    plugin, _, runtime = steered(f"snapshot {path}")
    assert plugin.ready()
    assert plugin.remark() == (
        "serving the snapshot of 2023-11-14 22:13:20+00:00, the cluster has not been read yet"
    )
    gauge = runtime.metrics.gauge("hsdns_kubernetes_snapshot_serving", "", ("path",))
    assert gauge.values == {(str(path),): 1.0}

    def rcode(name: str) -> int:
        request = make_request(f"{name}.default.svc.cluster.local.", "A")
        return finish(plugin.handle(request, next_with(unwritten(Rcode.SERVFAIL)))).rcode

    assert [rcode("kept"), rcode("gone"), rcode("other")] == [
        Rcode.NOERROR,
        Rcode.NOERROR,
        Rcode.NXDOMAIN,
    ]
    plugin.watch.deliver([*map(Upserted, objects[:2]), Synced()])
    assert [rcode("kept"), rcode("gone"), rcode("other")] == [
        Rcode.NOERROR,
        Rcode.NXDOMAIN,
        Rcode.NXDOMAIN,
    ]
    assert (plugin.ready(), plugin.remark()) == (True, "")
    assert gauge.values == {(str(path),): 0.0}


# Topology zones, several clusters, clients --------------------------------------------------------------------------


def test_what_zones_tell_of_absent_names() -> None:
    """Only where they do may the answer table deny a name without asking."""
    zones = "cluster.local clusterset.local in-addr.arpa"
    shared = (Name.from_text("clusterset.local"),)
    plugin = Cluster(zones=zones, multicluster=shared, fallthrough=(Name.from_text("arpa"),)).plugin
    assert [plugin.tells_absence(zone) for zone in plugin.zones] == [True, False, False]
    below = Name.from_text("a.clusterset.local")
    assert plugin.answers.lookup.is_multicluster(below)
    assert not plugin.tells_absence(below)


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("web.testns.svc.clusterset.local. A", True),
        ("web.testns.svc.clusterset.local. AAAA", False),
        ("nope.testns.svc.clusterset.local. A", False),
        ("clusterset.local. SOA", False),
        (f"web.{ZONE} AAAA", True),
    ],
)
def test_replies_with_the_other_serial_are_not_for_the_table(question: str, whole: bool) -> None:
    imported = ServiceImport(
        ObjectMeta("web", "testns"),
        ServiceImportSpec("ClusterSetIP", ["10.0.1.1"], [ServicePort(80, "http", "TCP")]),
    )
    shared = (Name.from_text("clusterset.local"),)
    cluster = Cluster(WEB, imported, zones="cluster.local clusterset.local", multicluster=shared)
    dependencies = Dependencies(NoCounters())
    qname, _, qtype = question.partition(" ")
    request = make_request(qname, qtype).replace(dependencies=dependencies)
    found = finish(cluster.plugin.handle(request, next_with(unwritten(Rcode.SERVFAIL))))
    assert found.fresh
    assert dependencies.is_cacheable is whole


HERE = pod("testns/here", "127.0.0.1")


@pytest.mark.parametrize(
    ("objects", "options", "qname", "path"),
    [
        pytest.param((HERE,), {}, f"x.{ZONE}", f"{ZONE} svc.cluster.local. cluster.local. lab. .", id="pod"),
        pytest.param((HERE,), {"zones": "."}, "x.", "testns.svc. svc. . lab. .", id="root"),
        pytest.param((HERE,), {}, "example.org.", None, id="outside"),
        pytest.param((HERE,), {"pods": "insecure"}, f"x.{ZONE}", None, id="not verified"),
        pytest.param((pod("testns/there", "10.5.0.1"),), {}, f"x.{ZONE}", None, id="no pod"),
    ],
)  # fmt: skip
def test_search_paths(
    objects: tuple[Object, ...],
    options: dict[str, object],
    qname: str,
    path: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 192.0.2.1\nsearch LAB\n")
    monkeypatch.setattr(kubernetes, "RESOLV_CONF", str(file))
    cluster = Cluster(*objects, **({"pods": "verified"} | options))  # type: ignore[arg-type]  # options of any type
    found = cluster.plugin.search_path(make_request(qname))
    assert (None if found is None else " ".join(name.to_text() for name in found)) == path


def test_labels_of_pods_are_kept_where_metadata_is_in_the_block() -> None:
    text = "kubernetes cluster.local {\n source synthetic\n pods verified\n}"
    block = make_block()
    assert Kubernetes.setup(directives(text), block).state.settings.pod_labels is False
    block = block._replace(plugins=frozenset({"metadata"}))
    assert Kubernetes.setup(directives(text), block).state.settings.pod_labels is True
