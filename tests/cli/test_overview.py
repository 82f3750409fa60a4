"""What is shown of a cluster at the start."""

from __future__ import annotations

import pytest

from hsdns.cli.overview import MOST_LINES, WIDTH, Example, examples, overview, size
from hsdns.cluster.objects import Object
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import endpoint_slice, namespace, service

PORTS = [f"port-{number}/TCP/{number}" for number in range(1, 10)]


@pytest.mark.parametrize(
    ("objects", "lines"),
    [
        pytest.param([], [], id="empty"),
        pytest.param(
            [service("testns/web", "10.0.0.1"), endpoint_slice("testns/web-1", "web", "172.16.0.1", "172.16.0.2")],
            ["web.@: 10.0.0.1, 2 endpoints, SRV _http._tcp"],
            id="cluster-ip",
        ),
        pytest.param(
            [
                service("testns/db"),
                endpoint_slice("testns/db-1", "db", "172.16.0.1"),
                endpoint_slice("testns/db-2", "db", "fd00::1", address_type="IPv6"),
            ],
            ["db.@: headless, 1 endpoint, SRV _http._tcp"],
            id="headless-of-both-families",
        ),
        pytest.param([service("testns/db")], ["db.@: headless, no ready endpoint, NXDOMAIN"], id="no-endpoint"),
        pytest.param([service("testns/ext", external="example.org")], ["ext.@: CNAME example.org."], id="external-name"),
        pytest.param([service("testns/ext", external="192.0.2.1")], [], id="external-address"),
        pytest.param([service("other/web", "10.0.0.1")], [], id="without-a-namespace"),
    ],
)  # fmt: skip
def test_services(objects: list[Object], lines: list[str]) -> None:
    block = Cluster(*objects).plugin
    shown = overview([block], "hsdns names")
    assert shown[0] == size(block)
    assert [line.replace("testns.svc.cluster.local", "@").strip() for line in shown[1:]] == lines


def test_many_ports_have_a_line_of_their_own() -> None:
    block = Cluster(service("testns/web", "10.0.0.1", ports=PORTS)).plugin
    first, second = overview([block], "hsdns names")[1:]
    assert first == "  web.testns.svc.cluster.local: 10.0.0.1, 0 endpoints,"
    assert second.startswith("    SRV _port-1._tcp _port-2._tcp ")
    assert second.endswith(" and 5 more")
    assert len(second) <= WIDTH


@pytest.mark.parametrize(("number", "more"), [(MOST_LINES, 0), (MOST_LINES + 1, 2), (100, 85)])
def test_at_most_a_screen(number: int, more: int) -> None:
    services = [service(f"testns/s{each:03}", f"10.0.0.{each}") for each in range(number)]
    lines = overview([Cluster(*services).plugin], "hsdns names --conf x")[1:]
    assert len(lines) == MOST_LINES
    assert "s000.testns" in lines[0]
    last = f"  … and {more} more, hsdns names --conf x lists all"
    assert (lines[-1] == last) is bool(more)


def test_size() -> None:
    block = Cluster(service("testns/db"), endpoint_slice("testns/s", "db", "10.0.0.1", "10.0.0.2"))
    assert size(block.plugin) == (
        "kubernetes cluster.local. in-addr.arpa. ip6.arpa.: 1 Service, 2 endpoint addresses, 1 namespace"
    )


def test_examples_are_of_the_service_that_has_most_to_show() -> None:
    block = Cluster(
        service("testns/a", "10.0.0.1", ports=[]),
        service("testns/db"),
        endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0", "172.16.0.2"),
    ).plugin
    home = "db.testns.svc.cluster.local"
    assert examples(block.answer_set()) == [
        Example(home, "A", ["172.16.0.1", "172.16.0.2"]),
        Example(f"_http._tcp.{home}", "SRV", [f"0 50 80 172-16-0-2.{home}.", f"0 50 80 db-0.{home}."]),
        Example(f"db-0.{home}", "A", ["172.16.0.1"]),
    ]  # fmt: skip


def test_small_namespaces_come_first() -> None:
    objects = [service(f"large/s{each:03}", f"10.0.0.{each}") for each in range(MOST_LINES)]
    block = Cluster(namespace("large"), *objects, service("testns/web", "10.0.1.1")).plugin
    assert overview([block], "hsdns names")[1].startswith("  web.testns.")
