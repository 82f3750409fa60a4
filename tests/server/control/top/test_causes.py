"""Why a name fails."""

from __future__ import annotations

import asyncio

import pytest

from hsdns.cluster.objects import Object
from hsdns.plugins.forward import Forward
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.top.causes import Causes
from hsdns.server.control.top.failing import FailingName
from hsdns.wire.name import Name
from tests.server.control.top.looked import KUBERNETES, Looked
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts

OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("test"),
    service("shop/web", "10.96.0.1"),
    service("shop/db"),
    service("shop/empty"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0"),
]
EXPOSED = KUBERNETES.replace("in-addr.arpa", "in-addr.arpa {\nnamespaces shop\npods insecure\n}")
BELOW = "svc.cluster.local."


def cause(looked: Looked, words: str) -> str:
    name, rrtype, rcode = (*words.split(), "A", "NXDOMAIN")[:3]
    return Causes(looked.door).of(FailingName(Name.from_text(name), rrtype, rcode))


@pytest.mark.parametrize(
    ("corefile", "asked", "sentence"),
    [
        (KUBERNETES, f"gone.nowhere.{BELOW}", "there is no namespace nowhere"),
        (KUBERNETES, f"gone.shop.{BELOW}", "there is no Service shop/gone"),
        (KUBERNETES, f"web.test.{BELOW}", "there is no Service test/web; web.shop.svc.cluster.local. exists (in namespace shop)"),
        (KUBERNETES, f"wbe.shop.{BELOW}", 'there is no Service shop/wbe; web.shop.svc.cluster.local. exists (Service "wbe" is misspelt)'),
        (KUBERNETES, f"empty.shop.{BELOW}", "Service shop/empty is headless and has no ready endpoint"),
        (KUBERNETES, f"xyz.db.shop.{BELOW}", 'no ready endpoint of Service shop/db has the name "xyz"; db.shop.svc.cluster.local. exists (the Service itself)'),
        (KUBERNETES, f"_grpc._tcp.db.shop.{BELOW} SRV", 'Service shop/db has no port with the name "grpc" and protocol "tcp"; _http._tcp.db.shop.svc.cluster.local. exists (another port of the Service)'),
        (KUBERNETES, f"a.b.c.d.shop.{BELOW}", "no name of zone cluster.local. has this form"),
        (EXPOSED, f"web.test.{BELOW}", "the option namespaces leaves out test; web.shop.svc.cluster.local. exists (in namespace shop)"),
        (EXPOSED, "db-0.shop.pod.cluster.local.", 'no pod of namespace shop has the address "db-0"; db-0.db.shop.svc.cluster.local. exists (names of pods with a hostname are below their Service)'),
        (KUBERNETES.replace(".:53", "cluster.local:53"), "www.example.org. A REFUSED", "no server block has a zone for the name"),
        (KUBERNETES, "www.example.org. A SERVFAIL", "SERVFAIL is from a plugin of server block .:53: kubernetes"),
        (KUBERNETES.replace("kubernetes", "erratic\nkubernetes"), f"web.shop.{BELOW} A SERVFAIL", "SERVFAIL is from a plugin of server block .:53: kubernetes, erratic"),
    ],
)  # fmt: skip
def test_causes(corefile: str, asked: str, sentence: str) -> None:
    assert cause(Looked(corefile, OBJECTS), asked) == sentence


@pytest.mark.parametrize(
    ("asked", "failed", "sentence"),
    [
        ("www.example.org. A NXDOMAIN", 1, "forwarded to 192.0.2.1:53, 192.0.2.2:53, which answered NXDOMAIN"),
        ("www.example.org. A SERVFAIL", 0, "forwarded to 192.0.2.1:53, 192.0.2.2:53, which answered SERVFAIL"),
        ("www.example.org. A SERVFAIL", 1, "forwarded to 192.0.2.1:53, 192.0.2.2:53, which has not replied to every query"),
    ],
)  # fmt: skip
def test_causes_of_forward(asked: str, failed: int, sentence: str) -> None:
    looked = Looked(KUBERNETES.replace("\n}", "\nforward . 192.0.2.1 192.0.2.2\n}"))
    (forward,) = [each for each in looked.server.configuration.plugins if isinstance(each, Forward)]
    asyncio.run(forward.start(looked.server.runtime))
    forward.routes[0].upstreams[1].failed = failed
    assert cause(looked, asked) == sentence


def test_a_cluster_that_was_not_read() -> None:
    looked = Looked()
    (block,) = [each for each in looked.server.configuration.plugins if isinstance(each, Kubernetes)]  # fmt: skip
    block.store.synced = False
    assert cause(looked, f"web.shop.{BELOW}").startswith("the cluster has not been read yet from ")


def test_a_cause_is_found_again_when_the_cluster_changes() -> None:
    looked = Looked(objects=OBJECTS)
    causes = Causes(looked.door)
    failing = FailingName(Name.from_text(f"empty.shop.{BELOW}"), "A", "NXDOMAIN")
    before = causes.of(failing)
    assert causes.of(failing) is before
    (block,) = [each for each in looked.server.configuration.plugins if isinstance(each, Kubernetes)]  # fmt: skip
    block.store.apply(upserts(endpoint_slice("shop/empty-1", "empty", "10.0.0.2")))
    assert causes.of(failing) == "NXDOMAIN is from a plugin of server block .:53: kubernetes"
