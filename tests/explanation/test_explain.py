"""The parts of an explanation; tests/explanation/test_properties.py holds them against the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.chain import Endpoint
from hsdns.cluster.objects import Object
from hsdns.explanation.explain import Explainer
from hsdns.explanation.observed import Edges
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType
from hsdns.wire.message import RD, Query
from hsdns.wire.name import Name
from tests.support.cluster.explained import KnownObjects, explain
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

OBJECTS: list[Object] = [
    namespace("shop"),
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/web-1", "web", "10.0.0.1"),
]
WEB = "web.shop.svc.cluster.local."
COREFILE = Path(__file__).with_name("explain.corefile").read_text()


@pytest.mark.parametrize(
    ("question", "outcome", "cause", "block", "keep"),
    [
        (WEB, "resolves", "NOERROR: the cluster IP of Service shop/web, which is not headless: its pods are not in the answer",
         "cluster.local.:53", 7),
        (f"w{WEB}", "does not resolve", "NXDOMAIN: there is no Service shop/wweb; did you mean web.shop.svc.cluster.local?",
         "cluster.local.:53", 7),
        ("web.shop.cluster.local.", "does not resolve",
         "NXDOMAIN: svc is missing; web.shop.svc.cluster.local exists", "cluster.local.:53", 7),
        ("a.test.", "could not tell", "forward would query 192.0.2.53:53; an explanation sends no queries", ".:53", 0),
        ("a.loop.test.", "could not tell",
         "forward queries 127.0.0.53:53 or [::1]:5353, a loopback address: in a Pod that is the Pod itself, so the query comes "
         "back to this server; name the upstreams, or give the kubelet a `resolvConf` that does", "loop.test.:53", 0),
        ("web.shop.svc.lab.test.", "could not tell", "the cluster domain is cluster.local, not lab.test; web.shop.svc.cluster.local "
         "exists; this name goes to 192.0.2.53:53", ".:53", 0),
    ],
)  # fmt: skip
def test_first_line(question: str, outcome: str, cause: str, block: str, keep: int) -> None:
    found = explain(question, *OBJECTS, text=COREFILE)
    assert (found.outcome, found.cause, found.server_block, found.keep_seconds) == (outcome, cause, block, keep)  # fmt: skip


def test_names_do_nothing_to_a_terminal() -> None:
    found = explain("\\027[31m.shop.svc.cluster.local.", *OBJECTS)
    assert found.cause == "NXDOMAIN: there is no Service shop/\\u001b[31m"


def test_asked_as_a_resolver_does() -> None:
    """The reply as octets, and why it is not known."""
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
    assert ask("a.test") == (2, "192.0.2.53:53 would answer for a.test")


def test_an_alias_and_a_name_that_the_built_in_corefile_has_no_server_for() -> None:
    text = "cluster.local {\nkubernetes\n}\n"
    server = MemoryServer(text, None, [namespace("shop"), service("shop/ext", external="a.test")])
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    edges = Edges(server.runtime.queries.spawn, is_builtin=True)
    explainer = Explainer(server.configuration, seeing, edges)
    why = (
        "a.test is outside of the cluster, and the built-in Corefile has no server for it; "
        "name the Corefile of the cluster with --conf"
    )
    for name, cause in (
        ("a.test.", why),
        ("ext.shop.svc.cluster.local.", f"NOERROR: 1 A record of the zone itself; {why}"),
    ):
        found = turns(explainer.explain(Name.from_text(name), RRType.A, 0.0))[0]
        assert (found.outcome, found.cause, found.blind) == ("could not tell", cause, [])


def test_an_error_of_a_plugin_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.plugins.kubernetes.Kubernetes.handle", lambda *given: 1 / 0)
    found = explain(WEB, *OBJECTS, text=COREFILE)
    assert (found.outcome, found.cause) == (
        "could not tell",
        "plugin kubernetes raised an error, which the log describes",
    )
