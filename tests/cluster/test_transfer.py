"""What a transfer holds; tests/scenarios/transfer/kubernetes.md compares the order and the numbers with CoreDNS."""

from __future__ import annotations

import pytest

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.cluster.selector import Selector
from hsdns.cluster.transfer import has_records
from hsdns.wire.name import Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, service, upserts
from tests.support.plugins.requests import section

ZONE = Name.from_text("cluster.local.")


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


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], [], id="empty"),
        pytest.param(
            [WEB],
            [
                "web.@ A 10.0.0.1",
                "web.@ AAAA 2001:db8::1",
                "web.@ SRV 0 100 80 web.@",
                "_http._tcp.web.@ SRV 0 100 80 web.@",
                "web.@ SRV 0 100 53 web.@",
            ],
            id="cluster-ip",
        ),
        pytest.param(
            [service("testns/bare", "10.0.0.2", ports=[])],
            ["bare.@ A 10.0.0.2", "bare.@ SRV 0 100 65535 bare.@"],
            id="without-ports",
        ),
        pytest.param(
            [service("testns/ext", external="www.Example.org")],
            ["ext.@ CNAME www.example.org."],
            id="external-name",
        ),
        pytest.param([service("testns/ext", external="192.0.2.1")], [], id="external-address"),
        pytest.param(
            [
                service("testns/db"),
                endpoint_slice(
                    "testns/db-1",
                    "db",
                    "172.16.0.1 host=db-0",
                    "172.16.0.2",
                    "172.16.0.3 ready=false",
                ),
            ],
            [
                "db.@ A 172.16.0.1",
                "db-0.db.@ A 172.16.0.1",
                "_http._tcp.db.@ SRV 0 50 80 db-0.db.@",
                "db.@ A 172.16.0.2",
                "172-16-0-2.db.@ A 172.16.0.2",
                "_http._tcp.db.@ SRV 0 50 80 172-16-0-2.db.@",
            ],
            id="headless",
        ),
        pytest.param(
            [
                service("testns/db"),
                endpoint_slice("testns/db-1", "db", "172.16.0.1", ports=["/TCP/80"]),
            ],
            ["db.@ A 172.16.0.1", "172-16-0-1.db.@ A 172.16.0.1"],
            id="headless-port-without-a-name",
        ),
        pytest.param([service("testns/db")], [], id="headless-without-endpoints"),
        pytest.param(
            [endpoint_slice("testns/db-1", "db", "172.16.0.1")], [], id="slice-without-a-service"
        ),
        pytest.param(
            [
                service("testns/b", "10.0.0.1", ports=[]),
                service("other/b", "10.0.0.2", ports=[]),
                service("testns/a", "10.0.0.3", ports=[]),
            ],
            [
                "a.@ A 10.0.0.3",
                "a.@ SRV 0 100 65535 a.@",
                "b.other.svc.cluster.local. A 10.0.0.2",
                "b.other.svc.cluster.local. SRV 0 100 65535 b.other.svc.cluster.local.",
                "b.@ A 10.0.0.1",
                "b.@ SRV 0 100 65535 b.@",
            ],
            id="by-name",
        ),
    ],
)
def test_records(objects: list[object], expected: list[str]) -> None:
    existing = ("testns", "other")
    assert lines(Cluster(*objects, existing=existing)) == expected  # type: ignore[arg-type]  # a table of objects of several kinds


def test_namespaces_count() -> None:
    hidden, shown = WEB, service("other/b", "10.0.0.2", ports=[])
    cluster = Cluster(hidden, shown, existing=("testns", "other"), namespaces=("other",))
    assert [line.split()[0] for line in lines(cluster)] == ["b.other.svc.cluster.local."] * 2


def test_namespaces_that_are_not_there_are_left_out() -> None:
    """What `namespace_labels` hides is no secondary's either."""
    labels = Selector.from_text("team=a")
    cluster = Cluster(
        namespace("testns", {"team": "a"}),
        namespace("other", {"team": "b"}),
        WEB,
        service("other/b", "10.0.0.2", ports=[]),
        service("gone/c", "10.0.0.3", ports=[]),
        existing=(),
        namespace_labels=labels,
    )
    assert {line.split()[0] for line in lines(cluster)} == {"web.@", "_http._tcp.web.@"}


def test_name_servers_come_first_and_their_addresses_have_no_ttl() -> None:
    cluster = Cluster(WEB, local=["192.0.2.1", "2001:db8::53"])
    assert section(list(taken(cluster).records))[:3] == [
        "cluster.local. 5 IN NS ns.dns.cluster.local.",
        "ns.dns.cluster.local. 0 IN A 192.0.2.1",
        "ns.dns.cluster.local. 0 IN AAAA 2001:db8::53",
    ]


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


@pytest.mark.parametrize("zone", ["other.local.", "testns.svc.cluster.local.", "in-addr.arpa."])
def test_no_such_zone(zone: str) -> None:
    assert Cluster(WEB).plugin.transfer(Name.from_text(zone)) is None


def test_before_the_cluster_was_read() -> None:
    with pytest.raises(
        LookupError, match=r"zone cluster\.local\.: the cluster has not been read yet"
    ):
        Cluster(synced=False).plugin.transfer(ZONE)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("cluster.local.", True),
        ("in-addr.arpa.", False),
        ("10.in-addr.arpa.", False),
        ("ip6.arpa.", False),
        (".", True),
    ],
)
def test_has_records(zone: str, expected: bool) -> None:
    assert has_records(Name.from_text(zone)) is expected
