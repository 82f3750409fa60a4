"""For any cluster, configuration and question: what is explained is what is answered, and the cause is true.

HSDNS_EXPLANATIONS sets how many clusters are drawn (30 without it), HSDNS_QUESTIONS how many questions each has (12
without it); `make explanations` draws many.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from hsdns.chain import Endpoint, Request
from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import Namespace, Object, Service
from hsdns.explanation.explain import Explainer
from hsdns.explanation.observed import Edges
from hsdns.explanation.report import Explanation
from hsdns.explanation.scene import Lacking, Scene, made
from hsdns.wire import printable
from hsdns.wire.iana import Rcode, RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import ROOT, Name
from hsdns.wire.text import rdata_to_text
from tests import strategies
from tests.support.cluster.explained import KnownObjects
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

CLUSTERS: Final = int(os.environ.get("HSDNS_EXPLANATIONS", "30"))
QUESTIONS: Final = int(os.environ.get("HSDNS_QUESTIONS", "12"))  # of each cluster
ZONES: Final = ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")
SHARED: Final = ("clusterset.local.", "in-addr.arpa.")
NOW: Final = 1000.0  # of the scripted clock, which nested lookups read
PHASES: Final = (
    Phase.explicit,
    Phase.generate,
)  # a cluster of this size would take minutes to shrink
OPTIONS: Final[tuple[dict[str, str], ...]] = (
    {"pods": "insecure"},
    {"pods": "verified", "endpoint_pod_names": ""},
    {"pods": "verified", "namespaces": "default", "labels": "tier=front"},
    {"ignore": "empty_service", "zonal": ""},
    {"noendpoints": "", "namespaces": "testns"},
    {"pods": "disabled", "fallthrough": "in-addr.arpa"},
    {"namespace_labels": "dns=yes", "ignore": "empty_service"},
    {"multicluster": "clusterset.local"},
    {"multicluster": "clusterset.local", "endpoint_pod_names": "", "namespaces": "default"},
    {"pods": "verified", "fallthrough": ""},
)  # fmt: skip
FRONTS: Final = (
    "",
    "",
    "",
    "rewrite name suffix .nope.cluster.local .default.svc.cluster.local answer auto\n",
    "rewrite type SRV A\n",
    'template IN TXT cluster.local {\nanswer "{{ .Name }} 60 IN TXT x"\nfallthrough\n}\n',
    "hosts {\n192.0.2.7 db.default.svc.cluster.local\n192.0.2.8 web.testns.svc.cluster.local\nfallthrough\n}\n",
    "hosts {\n192.0.2.7 db.default.svc.cluster.local\n}\n",
    "rewrite type A SRV\n",
    "rewrite continue name substring default testns\n",
    "rewrite name regex (.*)\\.default\\.svc\\.cluster\\.local {1}.testns.svc.cluster.local answer auto\n",
    "rewrite rcode regex .* NOERROR NXDOMAIN\n",
    "rewrite rcode regex .* NOERROR SERVFAIL\n",
    "rewrite cname exact example.org. db.default.svc.cluster.local.\n",
    "template IN ANY cluster.local {\nmatch ^web\\.\nrcode SERVFAIL\nfallthrough\n}\n",
    "autopath @kubernetes\n",
    "dns64 {\ntranslate_all\n}\n",
    "acl {\nblock type AAAA\n}\n",
    "cache 30\nminimal\n",
)
BEHINDS: Final = (
    "",
    "",
    "template ANY ANY {\nrcode NXDOMAIN\n}\n",
    'template IN A {\nanswer "{{ .Name }} 60 IN A 192.0.2.99"\n}\n',
    "loadbalance\n",
)


class Case(NamedTuple):
    """A configuration."""

    options: dict[str, str]
    front: str
    behind: str

    def server(self, objects: Sequence[Object]) -> MemoryServer:
        """A server with it."""
        lines = "".join(f"{name} {value}\n" for name, value in self.options.items())
        zones = " ".join(self.zones)
        text = f"{zones} {{\n{self.front}kubernetes {zones} {{\n{lines}}}\n{self.behind}}}\n"
        return MemoryServer(text, None, objects)

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones, those for which questions are made first."""
        return (*SHARED, "cluster.local.") if "multicluster" in self.options else ZONES

    @property
    def is_plain(self) -> bool:
        """Whether kubernetes alone answers."""
        return not (self.front or self.behind)

    def after(self, scene: Scene) -> Case:
        """The configuration after the changes of a scene."""
        options = dict(self.options)
        for name in scene.options:
            options.pop(name, None)
        if "pods" in scene.options:
            options["pods"] = scene.options["pods"]
        for name in scene.settings:
            options.pop("noendpoints" if name == "endpoints" else name)
        return self._replace(options=options)


cases = st.builds(Case, st.sampled_from(OPTIONS), st.sampled_from(FRONTS), st.sampled_from(BEHINDS))


def labelled(objects: Sequence[Object], seed: int) -> list[Object]:
    """The objects, some Services and Namespaces with the labels of OPTIONS."""
    chance = Random(seed)
    found: list[Object] = []
    for each in objects:
        labels = {"tier": "front", "dns": "yes"} if chance.random() < 0.6 else {}
        if isinstance(each, Service | Namespace):
            each = structs.replace(each, metadata=structs.replace(each.metadata, labels=labels))
        found.append(each)
    return found


def ask(found: MemoryServer, qname: Name, qtype: int) -> Reply:
    """What the server's own chain answers."""
    client = Endpoint("192.0.2.1", 40000)
    query = Query.ask(qname, qtype)
    request = Request(query, client, client, "tcp", found.server, ROOT, NOW)
    reply, _ = turns(found.runtime.processors[found.server].resolve(request))
    return reply


class Explaining:
    """A server of its own that explains, so that the one that is compared is not touched."""

    def __init__(self, case: Case, objects: Sequence[Object]) -> None:
        self.server = case.server(objects)
        seeing = {id(each): KnownObjects(objects) for each in self.server.plugins}
        self.explainer = Explainer(
            self.server.configuration, seeing, Edges(self.server.runtime.queries.spawn)
        )

    def ask(self, qname: Name, qtype: int) -> Explanation:
        """Explain a question."""
        return self.ask_with_changes(qname, qtype)[0]

    def ask_with_changes(self, qname: Name, qtype: int) -> tuple[Explanation, Lacking]:
        """Explain a question, with the changes that its name needs."""
        return turns(self.explainer.explain_with_changes(qname, qtype, NOW))[0]


def lines_of(reply: Reply) -> list[tuple[str, int, str, str]]:
    return sorted(
        (each.owner.to_text(), each.ttl, type_to_text(each.rrtype), rdata_to_text(each.rrtype, each.rdata))
        for each in reply.answer
    )  # fmt: skip


@settings(
    deadline=None, max_examples=CLUSTERS, phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(strategies.clusters(), cases, strategies.seeds)
def test_what_is_explained_is_what_is_answered(
    objects: list[Object], case: Case, seed: int
) -> None:
    objects = labelled(objects, seed)
    serving, explaining = case.server(objects), Explaining(case, objects)
    for qname, qtype in strategies.questions(seed, objects, case.zones, QUESTIONS):
        reply = ask(serving, qname, qtype)
        found = explaining.ask(qname, qtype)
        said = sorted((each.owner, each.ttl, each.type, each.rdata) for each in found.records)
        assert said == lines_of(reply)
        assert found.rcode == rcode_to_text(reply.rcode)
        has_records = any(qtype in (each.rrtype, RRType.ANY) for each in reply.answer)
        resolves = has_records and reply.rcode == Rcode.NOERROR
        assert found.is_answered == resolves
        assert found.cause.startswith(f"{found.rcode}: ")
        assert found.cause.isprintable()
        check_fates(found, reply, qtype)
        # What is behind may deny the target of a CNAME record, and then the reply is NXDOMAIN, though the name exists.
        for near in found.nearest if "NXDOMAIN" not in case.behind else ():
            assert ask(serving, Name.from_text(near.name), qtype).rcode == Rcode.NOERROR


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
    from_cluster = all(
        not (each.plugin == "hosts" and each.did.startswith("answered")) and each.plugin != "dns64"
        for each in found.plugins
    )
    if endpoints_answer and only_addresses and from_cluster:
        assert answered <= said


@settings(
    deadline=None, max_examples=CLUSTERS, phases=PHASES, suppress_health_check=list(HealthCheck)
)
@given(strategies.clusters(), cases, strategies.seeds)
def test_what_is_needed_makes_the_name_exist(objects: list[Object], case: Case, seed: int) -> None:
    objects = labelled(objects, seed)
    explaining = Explaining(case, objects)
    for qname, qtype in strategies.questions(seed, objects, case.zones, QUESTIONS):
        found, lacking = explaining.ask_with_changes(qname, qtype)
        assert [each.cause for each in found.needed] == [each.cause for each in lacking.changes]
        if "NOERROR NXDOMAIN" in case.front:
            continue  # a rule that denies every name is not changed by objects
        if found.needed and found.rcode == "NXDOMAIN":
            causes = "; and ".join(each.cause for each in found.needed)
            assert found.cause.startswith(printable(f"NXDOMAIN: {causes}")) or found.nearest
            assert exists(objects, case, made(*lacking), qname, qtype)
            for at in range(len(lacking.changes)):
                rest = (*lacking.changes[:at], *lacking.changes[at + 1 :])
                assert not exists(objects, case, made(lacking.scene, rest), qname, qtype)
        elif found.rcode == "NXDOMAIN" and "service" in found.reading:
            # Every name of a Service can be made to exist; in a reverse zone there are none.
            assert (
                qtype == RRType.TXT or found.reading["zone"].endswith(".arpa.") or is_denied(found)
            )


def is_denied(found: Explanation) -> bool:
    """Whether the name exists in the cluster, but what it is an alias of does not, or another plugin answered."""
    return not found.cause.startswith("NXDOMAIN: no ") and not found.needed


def exists(objects: Sequence[Object], case: Case, scene: Scene, qname: Name, qtype: int) -> bool:
    """Whether a server with the whole cluster, changed, has the name."""
    whole = Scene.of(objects).with_objects(*scene.objects.values()).objects.values()
    return ask(case.after(scene).server(list(whole)), qname, qtype).rcode != Rcode.NXDOMAIN
