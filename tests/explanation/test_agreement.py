"""For any cluster and question, no two tools contradict each other: the server, explain, names, resolve, wait and audit.

In clusters with planted mistakes the names that fail are those that the specification says, each with one cause.

HSDNS_EXPLANATIONS sets how many clusters are drawn (20 without it), as for test_properties.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import structs

from hsdns.audit.run import audit_questions
from hsdns.causes.failing import failing
from hsdns.causes.intended import intended
from hsdns.causes.view import View
from hsdns.chain import Endpoint
from hsdns.cli.wait import Count, _look
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import Object
from hsdns.explanation.client import Client, Lookups, Response, Setting, response_to
from hsdns.explanation.explain import Explainer
from hsdns.explanation.lookup import explain_for_client
from hsdns.explanation.observed import Edges
from hsdns.explanation.question import LookupQuestion
from hsdns.load.questions import Question
from hsdns.load.verify.judge import answer_of
from hsdns.load.verify.truth import Truth
from hsdns.resolver import USUAL
from hsdns.resolver.model import Packet, wire_of
from hsdns.resolver.report import LookupReport
from hsdns.rules.judging import read_files
from hsdns.sources.manifest_file import read_manifest_file
from hsdns.wire.iana import Rcode, RRType, type_to_text
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text
from tests import strategies
from tests.explanation.test_properties import NOW, PHASES, Case, Explaining, ask, cases, labelled
from tests.support.clients.command import run_command
from tests.support.cluster.dumped import dump_of
from tests.support.cluster.planted import applications, failing_names, plant, text_of
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

CLUSTERS: Final = int(os.environ.get("HSDNS_EXPLANATIONS", "20"))
QUESTIONS: Final = 10  # of each cluster
POD: Final = (
    "search default.svc.cluster.local svc.cluster.local cluster.local\n"
    "nameserver 10.96.0.10\noptions ndots:5\n"
)
CLIENT: Final = Endpoint("192.0.2.1", 40000)
ADDRESSES: Final = (RRType.A, RRType.AAAA)
WAITED: Final = (*ADDRESSES, RRType.SRV, RRType.PTR, RRType.CNAME)  # ... by programs and scripts


Answering = Callable[[bytes, str], Awaitable[bytes | None]]


def looked_up(
    answer: Answering, name: str, qtype: int, text: str = "nameserver 10.96.0.10\n"
) -> list[LookupReport]:
    """The lookups of all resolvers with a resolv.conf, as `hsdns resolve` shows them, and the addresses in order."""

    async def respond(packet: Packet, server: str) -> Response:
        return response_to(packet, await answer(wire_of(packet, 1), packet.transport), "")

    lookups = Lookups(respond, name, (qtype,))
    return [in_order(turns(lookups.look_up(Setting(each, text)))[0]) for each in USUAL]


def in_order(lookup: LookupReport) -> LookupReport:
    """A lookup with its addresses in order, which `loadbalance` draws for each reply."""
    queries = [
        each
        if each.answer is None
        else structs.replace(
            each, answer=structs.replace(each.answer, addresses=sorted(each.answer.addresses))
        )
        for each in lookup.queries
    ]
    return structs.replace(lookup, queries=queries, addresses=sorted(lookup.addresses))


def answers_of(server: MemoryServer) -> Answering:
    """The answers of a server."""
    processor = server.runtime.processors[server.server]
    return lambda wire, transport: processor.answer(wire, CLIENT, CLIENT, transport, NOW)


def resolve_of(server: MemoryServer) -> Answering:
    """The answers of its plugins without a server, as in `hsdns resolve`."""
    edges = Edges(server.runtime.queries.spawn, asks=True, acts=True)
    explainer = Explainer(server.configuration, {}, edges)

    async def answer(wire: bytes, transport: str) -> bytes | None:
        reply, why = await explainer.ask(wire, CLIENT, transport, NOW)
        assert not why
        return reply

    return answer


def listed_of(server: MemoryServer) -> Mapping[tuple[bytes, int], set[bytes]]:
    """What `hsdns names` lists, by name and type."""
    found: dict[tuple[bytes, int], set[bytes]] = {}
    for block in server.plugins:
        for rrset in block.answer_set().rrsets():
            key = rrset[0].owner.lower, rrset[0].rrtype
            found.setdefault(key, set()).update(each.rdata for each in rrset)
    return found


def is_hostname(qname: Name) -> bool:
    return all(
        label.replace(b"-", b"").replace(b"_", b"").isalnum() and label.isascii()
        for label in qname.labels
    )


@settings(
    deadline=None, max_examples=CLUSTERS, phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(strategies.clusters(), cases, strategies.seeds)
def test_no_two_tools_contradict_each_other(objects: list[Object], case: Case, seed: int) -> None:
    objects = labelled(objects, seed)
    serving, explaining = case.server(objects), Explaining(case, objects)
    listed = listed_of(serving)
    for qname, qtype in strategies.questions(seed, objects, case.zones, QUESTIONS):
        reply = ask(serving, qname, qtype)
        found = explaining.ask(qname, qtype)
        resolves = found.is_answered
        own = {each.rdata for each in reply.answer if each.rrtype == qtype and each.owner == qname}
        key = qname.lower, qtype
        if case.is_plain and key in listed:
            assert (own, reply.rcode) == (listed[key], Rcode.NOERROR)
        if qtype in WAITED:
            asked = _look("s", reply, qtype, Count(1, None), None)
            assert asked.is_right == resolves, (qname, qtype, reply, found)
        if case.is_plain:
            truth = Truth(serving.plugins[0], [Question(qname, qtype, "")], lambda: NOW)
            right = truth.latest(0)
            assert right is None or right == answer_of(reply.rcode, reply.answer)
        if qtype in ADDRESSES and is_hostname(qname):
            answer = answers_of(serving)
            final = looked_up(answer, qname.to_text(), qtype)
            taken = () if reply.rcode else reply.answer
            addresses = [each.rdata for each in taken if each.rrtype == qtype]
            for each in final:
                assert set(each.addresses) == set(map(address_to_text, addresses))
                assert (not each.error) == resolves
            short = ".".join(qname.to_text().split(".")[: 1 + seed % 3])
            question = LookupQuestion(short, (qtype,), USUAL)
            client = Client(question.resolvers, POD, "cluster.local", ("default", "testns"))
            asking = explain_for_client(explaining.explainer, client, question, NOW)
            whole = turns(asking)[0]
            assert whole.asker is not None
            by_server = looked_up(answer, short, qtype, POD)
            assert looked_up(resolve_of(explaining.server), short, qtype, POD) == by_server
            assert [*map(in_order, whole.asker.lookups)] == by_server
            assert whole.is_answered == (not any(each.error for each in by_server))


@settings(
    deadline=None, max_examples=CLUSTERS, phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(strategies.clusters(), cases, strategies.seeds)
def test_an_audit_finds_nothing_and_names_are_resolved(
    objects: list[Object], case: Case, seed: int
) -> None:
    case = case._replace(front="", behind="")
    serving, explaining = case.server(objects), Explaining(case, objects)
    every = audit_questions([each.answer_set() for each in serving.plugins], 4, Random(seed))
    truth = Truth(serving.plugins[0], every.all, lambda: NOW, known=every.known)
    for number, question in enumerate(every.all):
        reply = ask(serving, question.name, question.qtype)
        found = explaining.ask(question.name, question.qtype)
        right = truth.latest(number)
        if right is not None:
            assert answer_of(reply.rcode, reply.answer) == right
            assert found.is_answered == bool(right.records)
        if number >= len(every.known):
            falls_through = case.options.get("fallthrough") == ""
            denied = Rcode.SERVFAIL if falls_through else Rcode.NXDOMAIN
            assert (reply.rcode, found.outcome) == (denied, "does not resolve")


@settings(
    deadline=None, max_examples=CLUSTERS, phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(seed=strategies.seeds)
def test_a_name_fails_as_the_specification_says_and_each_tool_tells_one_cause(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    random = Random(seed)
    apps = applications(random, random.randint(2, 3))
    planted = [*plant(random, apps[random.randint(1, 3) :])]
    dump = dump_of(text_of(apps))
    wrong = set(failing_names(json.loads(dump)["items"]))
    objects = read_files([("dump", dump)], is_whole=True).objects
    view = View((each.kind, each.object) for each in objects.manifests)
    causes = dict(failing(view))
    assert set(causes) == wrong
    assert planted or not wrong
    case = Case({}, "", "")
    server = case.server(simulate(read_manifest_file(dump, "dump").documents))
    path = tmp_path_factory.mktemp("planted") / "dump.json"
    path.write_bytes(dump)
    names = [each.name for each in intended(view)]
    for name in random.sample(names, min(3, len(names))):
        qtype = RRType.SRV if name.startswith("_") else RRType.A
        reply = ask(server, Name.from_text(f"{name}.cluster.local."), qtype)
        question = [f"{name}.cluster.local.", type_to_text(qtype)]
        status, said = run_command(["explain", *question, "-source", "manifests", str(path), "-o", "json"])  # fmt: skip
        found = json.loads(said[said.index("{") :])
        if name in causes:
            cause = causes[name]
            assert (status, found["todo"]) == (1, cause.todo)
            assert found["cause"].partition(": ")[2] == cause.sentence
        else:
            # What the target of an alias outside has is not known.
            is_outside = all(each.rrtype == RRType.CNAME for each in reply.answer)
            assert reply.answer
            assert status == (2 if is_outside else 0)
