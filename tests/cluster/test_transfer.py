"""What a transfer holds; tests/scenarios/transfer/kubernetes.md compares the order and the numbers with CoreDNS."""

from __future__ import annotations

import pytest

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.cluster.objects import Selector
from hsdns.wire.name import Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import deletes, namespace, service, upserts
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
