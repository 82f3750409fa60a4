"""The lines for what changed between two states of a cluster."""

from __future__ import annotations

import pytest

from hsdns.cluster.answer_set import MOST, Changes
from hsdns.cluster.objects import Event
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import (
    deletes,
    endpoint_slice,
    namespace,
    service,
    upserts,
)

DB = service("testns/db")
ONE = endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0")
TWO = endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0", "172.16.0.2", version="2")
WEB = service("testns/web", "10.0.0.1")
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
        pytest.param(deletes(WEB), ["- 10.0.0.1 web.@", "- port 80 _http._tcp.web.@"], id="service-goes"),
        pytest.param(
            upserts(namespace("other")), ["+ 10.0.0.9 web.other.svc.cluster.local", "+ port 80 _http._tcp.web.other.svc.cluster.local"],
            id="namespace-comes",
        ),
        pytest.param(upserts(service("testns/web", "10.0.0.1", version="2")), [], id="same-answers"),
    ],
)  # fmt: skip
def test_lines(events: list[Event], expected: list[str]) -> None:
    cluster = Cluster(DB, ONE, WEB, MAIL, service("other/web", "10.0.0.9"))
    assert renewed(cluster, *events) == expected


def test_at_most_a_screen() -> None:
    services = [
        service(f"testns/s{number:03}", f"10.0.1.{number}", ports=[]) for number in range(100)
    ]
    found = renewed(Cluster(), *upserts(*services))
    assert len(found) == MOST
    assert found[:2] == ["+ 10.0.1.0 s000.@", "+ 10.0.1.1 s001.@"]
    assert found[-1] == f"… and {100 - MOST + 1} more changes"
