"""The Extended DNS Errors of replies in each state of the server, and that nothing else of a reply changes."""

from __future__ import annotations

from random import Random

import dns.edns
import dns.message
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.cluster.objects import Event, Object, Synced
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, encode_query
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests import strategies
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.effort import tries
from tests.support.plugins.requests import make_request
from tests.support.servers.memory_server import MemoryServer

OBJECTS: tuple[Object, ...] = (
    service("testns/db"),
    endpoint_slice("testns/db-1", "db", "172.0.0.1 ready=false", "172.0.0.2 ready=false"),
    service("testns/web", "10.0.0.1"),
)
LOST = "2026-01-02T03:04:05Z"
READ = "EDE 14: the cluster has not been read yet"


def errors(cluster: Cluster, question: str) -> list[str]:
    """The errors in the reply to a client with EDNS."""
    qname, _, qtype = question.partition(" ")
    query = make_request(f"{qname}.testns.svc.cluster.local.", qtype or "A", edns=Edns(1232)).query
    reply = cluster.ask(f"{qname}.testns.svc.cluster.local. {qtype or 'A'}", edns=Edns(1232))
    sent = dns.message.from_wire(encode(query, reply, 1232))
    return [
        f"EDE {int(each.code)}: {each.text}"
        for each in sent.options
        if isinstance(each, dns.edns.EDEOption)
    ]


def test_before_the_cluster_has_been_read() -> None:
    cluster = Cluster(*OBJECTS, synced=False, explain=True)
    assert errors(cluster, "nope") == [READ]
    assert errors(cluster, "web") == [], "it has an answer"
    cluster.plugin.store.lose(LOST)
    assert errors(cluster, "nope") == [f"{READ}; the API server cannot be watched since {LOST}"]


def test_a_state_that_may_be_old_is_told_after_the_reason() -> None:
    cluster = Cluster(*OBJECTS, explain=True)
    assert errors(cluster, "db") == ["EDE 0: 0 of 2 endpoints ready"]
    assert errors(cluster, "web") == []
    cluster.plugin.store.lose(LOST)
    old = f"as of {LOST}, since when the API server cannot be watched"
    assert errors(cluster, "db") == ["EDE 0: 0 of 2 endpoints ready", f"EDE 19: {old}"]
    assert errors(cluster, "web") == [f"EDE 3: {old}"]
    assert errors(cluster, "web AAAA") == ["EDE 0: no IPv6 address", f"EDE 3: {old}"]
    cluster.plugin.store.lose("")
    assert errors(cluster, "web") == []


def test_a_snapshot_does_not_know_the_number_of_endpoints() -> None:
    cluster = Cluster(synced=False, explain=True)
    cluster.plugin.store.restore(OBJECTS, 0.0)
    old = "as of 1970-01-01T00:00:00Z, from a snapshot: the cluster has not been read yet"
    assert errors(cluster, "db") == ["EDE 0: no ready endpoints", f"EDE 19: {old}"]
    assert errors(cluster, "web") == [f"EDE 3: {old}"]
    cluster.apply(Synced())
    assert errors(cluster, "web") == ["EDE 0: no such Service in the namespace"]


@pytest.mark.parametrize("question", ["db", "web", "web AAAA", "nope"])
def test_without_the_option_there_are_none(question: str) -> None:
    cluster = Cluster(*OBJECTS)
    cluster.plugin.store.lose(LOST)
    assert errors(cluster, question) == []


COREFILE = (
    ".:53 {{\ncache\nk8s_external ext.test {{\nheadless\n}}\n"
    "kubernetes cluster.local in-addr.arpa {{\npods insecure\n{option}}}\n}}\n"
)


@settings(max_examples=tries(20))
@given(seed=strategies.seeds, history=strategies.histories(), data=st.data())
def test_a_reply_is_the_same_but_for_the_errors(
    seed: int, history: list[Event], data: st.DataObject
) -> None:
    """Octet for octet without EDNS; with it, once the errors are cut out of its OPT record."""
    plain, explained = (
        MemoryServer(COREFILE.format(option=option), None) for option in ("", "explain\n")
    )
    at = data.draw(st.integers(0, len(history)))
    for server in (plain, explained):
        server.apply(*history[:at])
    questions = strategies.questions(
        seed, strategies.remaining(history), ("cluster.local.", "in-addr.arpa.", "ext.test."), 9
    )
    chance = Random(seed)
    for qname, qtype in (*questions, (Name.from_text("nope.default.svc.cluster.local."), 6)):
        edns = chance.choice([None, Edns(1232), Edns(4096, do=True, options=((10, bytes(8)),))])
        wire = encode_query(Query.ask(qname, qtype, edns=edns), 7)
        expected = plain.from_chain(wire, "tcp", stores=False)
        found = explained.from_chain(wire, "tcp", stores=False)
        assert expected is not None
        assert found is not None
        if edns is not None:
            opt = edns.to_wire()
            at_opt = found.rindex(opt[:9])
            found = found[:at_opt] + opt
        assert found == expected
