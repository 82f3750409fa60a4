from collections.abc import Callable
from typing import Any

import pytest

from hsdns.testing import Cluster, ClusterError, Service, StatefulSet
from tests.testing.asking import ask, web

pytestmark = pytest.mark.sockets

SVC = "default.svc.cluster.local"


@pytest.fixture
def service(cluster: Cluster) -> Service:
    return cluster.service("web", headless=True, ports={"http": 8080}).endpoints("10.0.0.1", "10.0.0.2")  # fmt: skip


def come_back(web: Service) -> None:
    web["10.0.0.2"].not_ready().delete()
    web.endpoints("10.0.0.2")


CHANGES: list[tuple[str, Callable[[Service], Any], str]] = [
    ("as it was made", lambda web: None, "10.0.0.1 10.0.0.2"),
    ("an endpoint is not ready", lambda web: web["10.0.0.1"].not_ready(), "10.0.0.2"),
    ("and ready again", lambda web: web["10.0.0.1"].not_ready().ready(), "10.0.0.1 10.0.0.2"),
    ("none is ready", lambda web: web.not_ready(), "NXDOMAIN"),
    ("all are ready again", lambda web: web.not_ready().ready(), "10.0.0.1 10.0.0.2"),
    ("one more", lambda web: web.endpoints("10.0.0.3"), "10.0.0.1 10.0.0.2 10.0.0.3"),
    ("one twice", lambda web: web.endpoints("10.0.0.1"), "10.0.0.1 10.0.0.2"),
    ("one that is not ready", lambda web: web.endpoint("10.0.0.3", ready=False), "10.0.0.1 10.0.0.2"),
    ("on this machine", lambda web: web.endpoint("127.0.0.1", hostname="here").endpoints("::1"), "10.0.0.1 10.0.0.2 127.0.0.1"),
    ("on this machine, not ready", lambda web: web.endpoints("127.0.0.1")["127.0.0.1"].not_ready(), "10.0.0.1 10.0.0.2"),
    ("one goes", lambda web: web["10.0.0.2"].delete(), "10.0.0.1"),
    ("one goes and comes back ready", lambda web: come_back(web), "10.0.0.1 10.0.0.2"),
    ("it goes", lambda web: web.delete(), "NXDOMAIN"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])  # fmt: skip
def test_change_is_answered_when_the_call_returns(
    cluster: Cluster, service: Service, change: Callable[[Service], Any], found: str
) -> None:
    change(service)
    assert web(cluster) == found


def test_endpoints_have_names_and_ports(cluster: Cluster, service: Service) -> None:
    service.endpoint("10.0.0.3", hostname="three").endpoints("fd00::1")
    assert ask(cluster, f"three.web.{SVC}") == ["10.0.0.3"]
    assert ask(cluster, f"web.{SVC}", "AAAA") == ["fd00::1"]
    assert f"0 25 8080 three.web.{SVC}." in ask(cluster, f"_http._tcp.web.{SVC}", "SRV")
    assert service.addresses == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"]
    assert service.dns_name == f"web.{SVC}"
    assert service.cluster_ips == []


def test_cluster_ip(cluster: Cluster) -> None:
    service = cluster.service("api", ports={"dns": "53/UDP"})
    assert ask(cluster, service.dns_name) == service.cluster_ips
    assert ask(cluster, f"_dns._udp.api.{SVC}", "SRV") == [f"0 100 53 api.{SVC}."]


def test_statefulset(cluster: Cluster) -> None:
    db = cluster.statefulset("db", replicas=3, ports={"pg": 5432})
    first, second, third = db.addresses
    assert ask(cluster, f"db.{SVC}") == sorted([first, second, third])
    assert ask(cluster, f"db-1.db.{SVC}") == [second]
    db.not_ready(1)
    assert ask(cluster, f"db.{SVC}") == sorted([first, third])
    db.scale(2)
    assert ask(cluster, f"db.{SVC}") == [first]
    db.scale(3)
    assert db.addresses == [first, second, third], "an ordinal has its address again"
    db.not_ready().ready(0)
    assert ask(cluster, f"db.{SVC}") == [first]
    db.ready().delete()
    assert ask(cluster, f"db.{SVC}") == ["NXDOMAIN"]
    assert cluster["db"].addresses == []


def test_a_new_pod_of_an_ordinal_is_ready(cluster: Cluster) -> None:
    db = cluster.statefulset("db", replicas=2)
    db.not_ready(1).scale(1).scale(2)
    assert ask(cluster, f"db.{SVC}") == sorted(db.addresses)


def test_readiness_of_a_pod_is_seen_by_each_service_of_it(cluster: Cluster) -> None:
    db = cluster.statefulset("db", replicas=2)
    other = cluster.service("other", headless=True, selector={"app": "db"})
    db.service[db.addresses[0]].not_ready()
    assert ask(cluster, other.dns_name) == [db.addresses[1]]


def test_statefulset_of_a_service_that_is_there(cluster: Cluster) -> None:
    every = cluster.service("every", headless=True, selector={"app": "db"}, publish_not_ready=True)
    db = cluster.statefulset("db", replicas=2, service="every").not_ready()
    assert ask(cluster, f"db-0.every.{SVC}") == [db.addresses[0]]
    assert every.addresses == db.addresses


def delete_pod(db: StatefulSet) -> None:
    db.service[db.addresses[0]].delete()


def delete_first(web: Service) -> None:
    web.delete()
    web.not_ready()


def delete_set_first(db: StatefulSet) -> None:
    db.delete()
    db.scale(2)


REFUSED: list[tuple[Callable[[Cluster, Service], Any], str]] = [
    (lambda cluster, web: web["10.0.0.3"], '<Service default/web> has no endpoint "10.0.0.3"; did you mean "10.0.0.2"?'),
    (
        lambda cluster, web: web.endpoints("10.0.0.9", "10.0.0.300"),
        'endpoints(): EndpointSlice default/web-test-ipv4: endpoints[3].addresses[0]: "10.0.0.300" is not an IP address; write one such as 10.244.0.10',
    ),
    (
        lambda cluster, web: cluster.statefulset("db", replicas=2).not_ready(0, 2),
        '<StatefulSet default/db> has no pod "db-2"; did you mean "db-1"?',
    ),
    (
        lambda cluster, web: cluster.statefulset("db").service.endpoints("10.0.0.1"),
        "<Service default/db> has a selector, so its endpoints are pods; leave selector out to write endpoints",
    ),
    (
        lambda cluster, web: delete_pod(cluster.statefulset("db")),
        "10.244.82.199 of <Service default/db> was not written by endpoints(); scale its workload, or make it not_ready()",
    ),
    (
        lambda cluster, web: delete_first(web),
        "<Service default/web> was deleted; make it again with cluster.service()",
    ),
    (
        lambda cluster, web: delete_set_first(cluster.statefulset("db")),
        "<StatefulSet default/db> was deleted; make it again with cluster.statefulset()",
    ),
    (
        lambda cluster, web: cluster.service("api", ports={"http": "http"}),
        """port "http" is 'http'; write a number, or a number and a protocol such as "53/UDP\"""",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), REFUSED, ids=[row[1][:40] for row in REFUSED])
def test_bad_input_changes_nothing(
    cluster: Cluster, service: Service, call: Callable[[Cluster, Service], Any], sentence: str
) -> None:
    with pytest.raises(ClusterError) as raised:
        call(cluster, service)
    assert str(raised.value) == sentence
    if "was deleted" not in sentence:
        assert web(cluster) == "10.0.0.1 10.0.0.2"
