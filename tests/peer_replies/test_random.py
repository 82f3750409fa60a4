"""Random questions over random clusters get from hsdns what CoreDNS replied, record for record.

Path: generated manifests -> the simulated controllers -> both servers -> the replies compared.
Rule 1: recorded are the Corefile, the objects and the questions too, so that a change of what makes them changes nothing here.
Rule 2: the order of records, the serial of a SOA and the case of letters are free; all else is compared.  CoreDNS points
        from names in RDATA to the question, which gives them its case; tests/scenarios say what case owners have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import msgspec
import pytest

from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import Object
from hsdns.sources.manifest_file import read_manifest_file
from tests.strategies import questions
from tests.support.clients.exchange import ask_udp
from tests.support.manifests.generated import generated
from tests.support.peer_replies import PEER, found, hold, is_recording
from tests.support.scenarios.drivers import MemoryDriver
from tests.support.scenarios.peer import Peer
from tests.support.scenarios.scenario import Manifest, Scenario

CLUSTERS: Final = 50
QUESTIONS: Final = 100  # for each cluster
NAMESPACES: Final = 3
KINDS: Final = {
    "Service": "v1", "Namespace": "v1", "Pod": "v1", "EndpointSlice": "discovery.k8s.io/v1",
}  # fmt: skip
ZONES: Final = (
    ("cluster.local.", "in-addr.arpa.", "ip6.arpa."),
    ("cluster.local.",),
    ("sub.cluster.local.", "cluster.local.", "10.in-addr.arpa."),
)


class Case(msgspec.Struct):
    """What a server is given and asked; queries as octets."""

    corefile: str
    objects: list[Manifest]
    queries: list[bytes]


def make(seed: int) -> Case:
    """A cluster, and questions that it has something to do with; the same ones for a seed."""
    chance = Random(seed)
    manifests: list[Manifest] = []
    for number in range(NAMESPACES):
        of_namespace = generated(seed * NAMESPACES + number)
        name = of_namespace[0]["metadata"]["namespace"]
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        manifests += [namespace, *of_namespace]
    listed = {"apiVersion": "v1", "kind": "List", "items": manifests}
    objects = simulate(read_manifest_file(msgspec.json.encode(listed), "generated.json").documents)
    zones = chance.choice(ZONES)
    asked = questions(seed, objects, zones, 2 * QUESTIONS)
    # `ns.dns` has the addresses of the machine.
    asked = [each for each in asked if not each[0].lower.startswith(b"\2ns\3dns")][:QUESTIONS]
    return Case(
        _corefile(chance, zones),
        [_manifest(each) for each in objects if type(each).__name__ in KINDS],
        [_query(chance, name.to_text(), qtype) for name, qtype in asked],
    )


def _corefile(chance: Random, zones: Sequence[str]) -> str:
    lines = [f"ttl {chance.choice((0, 5, 30, 3600))}", f"pods {chance.choice(('disabled', 'insecure', 'verified'))}"]  # fmt: skip
    lines += chance.sample(["endpoint_pod_names", "noendpoints", "ignore empty_service"], chance.choice((0, 0, 1, 2)))  # fmt: skip
    lines += chance.choice(([], [], ["fallthrough"], ["fallthrough in-addr.arpa ip6.arpa"]))
    body = "".join(f"        {line}\n" for line in lines)
    return f". {{\n    kubernetes {' '.join(zones)} {{\n{body}    }}\n}}\n"


def _manifest(each: Object) -> Manifest:
    kind = type(each).__name__
    return {"apiVersion": KINDS[kind], "kind": kind, **msgspec.to_builtins(each)}


def _query(chance: Random, name: str, qtype: int) -> bytes:
    edns: dict[str, Any] = {"use_edns": 0, "payload": 4096} if chance.random() < 0.5 else {}
    query = dns.message.make_query(name, dns.rdatatype.RdataType.make(qtype), **edns)
    query.id = chance.randrange(65_536)
    return query.to_wire()


def comparable(wire: bytes) -> dict[str, Any]:
    """All of a reply that is not free."""
    reply = dns.message.from_wire(wire, one_rr_per_rrset=True)
    sections = [sorted(rrset.to_text().lower() for rrset in rrsets) for rrsets in reply.sections]
    soas = [rrset for rrset in reply.authority + reply.answer if rrset.rdtype == dns.rdatatype.SOA]
    serials = {str(each[0].serial) for each in soas}
    named = zip(("question", "answer", "authority", "additional"), sections, strict=True)
    return {
        "id": reply.id,
        "rcode": dns.rcode.to_text(reply.rcode()),
        "flags": dns.flags.to_text(reply.flags),
        "OPT": reply.opt and reply.opt.to_text(),
        **{name: [_without(serials, text) for text in texts] for name, texts in named},
    }


def _without(serials: set[str], text: str) -> str:
    return " ".join("*" if word in serials else word for word in text.split(" "))


def _scenario(seed: int, case: Case) -> Scenario:
    return Scenario(Path(f"random-{seed}"), "", case.corefile, tuple(case.objects), (), frozenset())


def _case(seed: int) -> Case:
    return msgspec.convert(found(f"random/{seed}").data, Case)


@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_replies_as_coredns_did(seed: int) -> None:
    case = _case(seed)

    async def run() -> list[bytes]:
        async with MemoryDriver(_scenario(seed, case)) as driver:
            return [await driver.ask(query, "udp") for query in case.queries]

    for query, reply, theirs in zip(case.queries, asyncio.run(run()), found(f"random/{seed}").replies, strict=True):  # fmt: skip
        asked = dns.message.from_wire(query).question[0].to_text()
        assert comparable(reply) == comparable(theirs), f"{asked}\n{case.corefile}"


@pytest.mark.peer
@pytest.mark.skipif(not PEER, reason="HSDNS_PEER names no CoreDNS binary")
@pytest.mark.parametrize("seed", range(CLUSTERS))
def test_coredns_still_does(seed: int) -> None:
    case = make(seed) if is_recording() else _case(seed)

    async def run() -> list[bytes]:
        async with Peer(PEER, _scenario(seed, case)) as server:
            return [await ask_udp(server.address, query) for query in case.queries]

    hold(f"random/{seed}", asyncio.run(run()), msgspec.to_builtins(case))
