"""The parts of an explanation; tests/explanation/test_properties.py holds them against the server."""

from __future__ import annotations

import pytest

from hsdns.chain import Endpoint
from hsdns.cluster.objects import Object, Service, ServicePort, ServiceSpec
from hsdns.explanation.explain import Explainer
from hsdns.explanation.observed import Edges
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import RD, Query
from hsdns.wire.name import Name
from tests.support.cluster.explained import KnownObjects, explain
from tests.support.cluster.objects import endpoint_slice, meta, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

OBJECTS: list[Object] = [namespace("shop"), service("shop/web", "10.96.0.1")]
WEB = "web.shop.svc.cluster.local."
COREFILE = """cluster.local {
kubernetes {
ttl 7
}
}
. {
forward . 192.0.2.53
}
loop.test {
forward . 127.0.0.53 [::1]:5353
}
"""


@pytest.mark.parametrize(
    ("question", "outcome", "cause", "block", "keep"),
    [
        (WEB, "resolves", "NOERROR: the cluster IP of Service shop/web, which is not headless: its pods are not in the answer",
         "cluster.local.:53", 7),
        (f"x{WEB}", "does not resolve", "NXDOMAIN: there is no Service shop/xweb", "cluster.local.:53", 7),
        ("web.shop.cluster.local.", "does not resolve",
         "NXDOMAIN: no name of zone cluster.local. has this form; the label svc is missing", "cluster.local.:53", 7),
        ("a.test.", "could not tell", "forward would ask 192.0.2.53:53, but an explanation asks no server", ".:53", 0),
        ("a.loop.test.", "could not tell",
         "forward asks 127.0.0.53:53 or [::1]:5353, a loopback address: in a Pod that is the Pod itself, so the query comes "
         "back to this server; name the upstreams, or give the kubelet a `resolvConf` that does", "loop.test.:53", 0),
    ],
)  # fmt: skip
def test_first_line(question: str, outcome: str, cause: str, block: str, keep: int) -> None:
    found = explain(question, *OBJECTS, text=COREFILE)
    assert (found.outcome, found.cause, found.server_block, found.keep_seconds) == (outcome, cause, block, keep)  # fmt: skip


def test_names_do_nothing_to_a_terminal() -> None:
    found = explain("\\027[31m.shop.svc.cluster.local.", *OBJECTS)
    assert found.cause == "NXDOMAIN: there is no Service shop/\\u001b[31m"


def test_asked_as_a_resolver_does() -> None:
    """The reply as octets, and whom the server would have asked."""
    server = MemoryServer(COREFILE, None, OBJECTS)
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    explainer = Explainer(server.configuration, seeing, Edges(server.runtime.queries.spawn))

    def ask(name: str) -> tuple[int, str]:
        wire = encode_query(Query.ask(Name.from_text(name), RRType.A, flags=RD), 7)
        reply, whom = turns(explainer.ask(wire, Endpoint("192.0.2.1", 4000), "udp", 0.0))[0]
        assert reply is not None
        return reply[3] & 15, whom

    assert ask(WEB) == (0, "")
    assert ask(f"x{WEB}") == (3, "")
    assert ask("a.test") == (2, "192.0.2.53:53")


# The first line where a name exists.


DB = [
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 ready=false"),
]
WEB_CAUSES = service("shop/web", "10.96.0.1")


@pytest.mark.parametrize(
    ("question", "objects", "cause"),
    [
        ("db.shop.svc.cluster.local.", DB, "1 of 2 endpoints of headless Service shop/db; 1 left out (not ready)"),
        ("db-0.db.shop.svc.cluster.local.", DB, "endpoint db-0 of Service shop/db; 1 left out (not ready)"),
        ("db.shop.svc.cluster.local. AAAA", DB,
         "Service shop/db has no AAAA record: none of its ready endpoints has an IPv6 address"),
        ("db.shop.svc.cluster.local.", [service("shop/db"), endpoint_slice("shop/db-6", "db", "fd00::1", address_type="IPv6")],
         "Service shop/db has no A record: none of its ready endpoints has an IPv4 address"),
        ("db.shop.svc.cluster.local. SRV", [service("shop/db"), endpoint_slice("shop/db-1", "db", "10.0.0.1", ports=("http/TCP/",))],
         "Service shop/db has no SRV record: its EndpointSlices have no port number"),
        ("db.shop.svc.cluster.local. MX", DB, "Service shop/db has no MX record"),
        ("web.shop.svc.cluster.local.", [Service(meta("shop/web"), ServiceSpec(ports=[ServicePort(80)]))],
         "Service shop/web has no A record: its cluster IPs are none"),
        ("db.shop.svc.cluster.local.", [*DB, endpoint_slice("shop/db-2", "db", "10.0.0.1 host=db-0")],
         "1 of 3 endpoints of headless Service shop/db; 2 left out (not ready and others)"),
        ("web.shop.svc.cluster.local.", [WEB_CAUSES],
         "the cluster IP of Service shop/web, which is not headless: its pods are not in the answer"),
        ("web.shop.svc.cluster.local. AAAA", [WEB_CAUSES], "Service shop/web has no AAAA record: its cluster IPs are 10.96.0.1"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="a.test")],
         "CNAME to a.test, the externalName of Service shop/web"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="Web.shop.svc.cluster.local")],
         "Service shop/web is of type ExternalName, and its externalName is its own name"),
        ("web.shop.svc.cluster.local.", [service("shop/web", external="db.shop.svc.cluster.local")],
         "Service shop/web is of type ExternalName, and db.shop.svc.cluster.local has no such record in the cluster"),
        ("10-0-0-1.shop.pod.cluster.local.", [], "the address is in the name itself, whether a pod has it or not (`pods insecure`)"),
        ("10-0-0-1.shop.pod.cluster.local. AAAA", [], "the address in the name has no AAAA record"),
        ("1.0.96.10.in-addr.arpa. PTR", [WEB_CAUSES], "1 PTR record of the cluster IP of Service shop/web"),
        ("1.0.0.10.in-addr.arpa. PTR", DB, "1 PTR record of an endpoint in EndpointSlice shop/db-1"),
        ("cluster.local. SOA", [], "1 SOA record of the zone itself"),
        ("shop.svc.cluster.local.", [], "the name exists, but has no A record"),
    ],
)  # fmt: skip
def test_first_line_of_causes(question: str, objects: list[Object], cause: str) -> None:
    assert (
        explain(question, namespace("shop"), *objects, pods="insecure").cause == f"NOERROR: {cause}"
    )
