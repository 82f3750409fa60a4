"""An explanation says what the server answers, and what it says is missing is what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hsdns.chain import Endpoint, Request
from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Object
from hsdns.cluster.question import SVC
from hsdns.explanation.candidates import candidates
from hsdns.explanation.changes import Change, made, smallest
from hsdns.explanation.explain import Edges, Explainer
from hsdns.explanation.live import KnownObjects
from hsdns.explanation.report import Explanation
from hsdns.explanation.scene import ClusterObjects, Replay, Scene
from hsdns.wire.iana import Rcode, RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import ROOT, Name
from hsdns.wire.text import rdata_to_text
from tests import strategies
from tests.support.cluster.explained import go_on
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

ZONES = ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")
OPTIONS: tuple[dict[str, str], ...] = (
    {"pods": "insecure"},
    {"pods": "verified", "endpoint_pod_names": ""},
    {"namespaces": "default"},
    {"ignore": "empty_service", "zonal": ""},
    {"noendpoints": ""},
    {"pods": "disabled", "fallthrough": "in-addr.arpa"},
)
QUESTIONS = 12  # of each cluster
PHASES = (Phase.explicit, Phase.generate)  # a cluster of this size would take minutes to shrink
# The properties of the Corefile that a change of an option or a store's setting stands for.
CHANGED = {"namespaces": "", "pods": "insecure", "ignore": False, "endpoints": True}


def server(options: dict[str, str], objects: Sequence[Object], front: str = "") -> MemoryServer:
    lines = "".join(f"{name} {value}\n" for name, value in options.items())
    corefile = f"cluster.local in-addr.arpa ip6.arpa {{\n{front}kubernetes {{\n{lines}}}\n}}\n"
    return MemoryServer(corefile, None, objects)


def ask(found: MemoryServer, qname: Name, qtype: int) -> Reply:
    """What the server's own chain answers."""
    client = Endpoint("192.0.2.1", 40000)
    query = Query.ask(qname, qtype)
    request = Request(query, client, client, "tcp", found.server, ROOT, 0.0)
    reply, _ = turns(found.runtime.processors[found.server].resolve(request))
    return reply


def explain(found: MemoryServer, objects: Sequence[Object], qname: Name, qtype: int) -> Explanation:
    """Explain a question to a server of its own, so that the one that is compared is not touched."""
    seeing = {id(each): KnownObjects(objects) for each in found.plugins}
    explainer = Explainer(found.configuration, seeing, Edges(found.runtime.queries.spawn))
    explanation, _ = turns(explainer.explain(qname, qtype, 0.0))
    return explanation


def without(options: dict[str, str], scene: Scene) -> dict[str, str]:
    """The properties after the changes of a scene."""
    found = dict(options)
    for name in scene.options:
        found.pop(name)
    if "pods" in scene.options:
        found["pods"] = scene.options["pods"]
    if "endpoints" in scene.settings:
        del found["noendpoints"]
    return found


def whole(objects: Sequence[Object], scene: Scene) -> list[Object]:
    """All objects of a cluster after the changes of a scene that has some of them."""
    return list(Scene.of(objects).with_objects(*scene.objects.values()).objects.values())


def needed(
    found: MemoryServer, objects: Sequence[Object], qname: Name, qtype: int
) -> tuple[Scene, tuple[Change, ...]] | None:
    """The scene of a missing name of a Service, and the changes that it needs; None for other names."""
    (block,) = found.plugins
    zone = qname.longest_of(block.zones)
    if zone is None or zone.to_text() != "cluster.local.":
        return None
    parsed = block.answers.lookup.parse(qname, zone)
    if parsed is None or parsed.kind != SVC or not parsed.name:
        return None
    kept, replay = ClusterObjects(objects), Replay(block, zone)
    scene = Scene.of(kept.of_name(parsed))
    if replay.exists(scene, qname, qtype):
        return None
    options = list(candidates(parsed, scene, kept, replay))
    return scene, turns(smallest(replay, scene, options, qname, qtype, go_on))[0]


@settings(deadline=None, max_examples=30, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(strategies.clusters(), st.sampled_from(OPTIONS), strategies.seeds)
def test_what_is_explained_is_what_is_answered(
    objects: list[Object], options: dict[str, str], seed: int
) -> None:
    serving, explaining = server(options, objects), server(options, objects)
    for qname, qtype in strategies.questions(seed, objects, ZONES, QUESTIONS):
        reply = ask(serving, qname, qtype)
        found = explain(explaining, objects, qname, qtype)
        said = [(each.owner, each.ttl, each.type, each.rdata) for each in found.records]
        answered = [
            (each.owner.to_text(), each.ttl, type_to_text(each.rrtype), rdata_to_text(each.rrtype, each.rdata))
            for each in reply.answer
        ]  # fmt: skip
        assert said == answered
        assert found.rcode == rcode_to_text(reply.rcode)
        resolves = bool(reply.answer) and reply.rcode == Rcode.NOERROR
        assert (found.outcome == "resolves") == resolves
        check_fates(found, reply, qtype)


def check_fates(found: Explanation, reply: Reply, qtype: int) -> None:
    """An endpoint is said to be answered exactly if the answer has one of its addresses because of it."""
    if found.service is None or qtype not in (RRType.A, RRType.AAAA):
        return
    answered = {each.rdata for each in reply.answer if each.rrtype == qtype}
    said: set[bytes | None] = set()
    for part in found.service.slices:
        for endpoint in part.endpoints:
            own = {pack_address(text) for text in endpoint.addresses}
            if endpoint.fate == "answered" and part.address_type != "FQDN":
                assert own & answered
                said |= own
    endpoints_answer = found.service.kind == "headless" or "endpoint" in found.reading
    only_addresses = all(part.address_type != "FQDN" for part in found.service.slices)
    if endpoints_answer and only_addresses:
        assert answered <= said


@settings(deadline=None, max_examples=30, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(strategies.clusters(), st.sampled_from(OPTIONS), strategies.seeds)
def test_what_is_needed_makes_the_name_exist(
    objects: list[Object], options: dict[str, str], seed: int
) -> None:
    found = server(options, objects)
    for qname, qtype in strategies.questions(seed, objects, ZONES, QUESTIONS):
        question = needed(found, objects, qname, qtype)
        if question is None or qtype in (RRType.TXT, RRType.AXFR, RRType.IXFR):
            continue
        scene, changes = question
        assert ask(found, qname, qtype).rcode == Rcode.NXDOMAIN
        assert changes, f"nothing is said to be missing for {qname.to_text()}"
        assert exists(objects, options, made(scene, changes), qname, qtype)
        for left_out in range(len(changes)):
            fewer = changes[:left_out] + changes[left_out + 1 :]
            assert not exists(objects, options, made(scene, fewer), qname, qtype)


def exists(
    objects: Sequence[Object], options: dict[str, str], scene: Scene, qname: Name, qtype: Any
) -> bool:
    """Whether a server with the whole cluster, changed, has the name."""
    changed = server(without(options, scene), whole(objects, scene))
    return ask(changed, qname, qtype).rcode != Rcode.NXDOMAIN
