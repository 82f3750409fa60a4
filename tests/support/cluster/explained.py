"""Explanations of questions to a server in memory.

Path: the tests of explanation/ -> MemoryServer, Explainer.

A row of a table is a question, and a line for each object or part of the configuration:
`namespace NAME`, `service PATH [ADDRESS...|none] [external=NAME]`, `slice PATH OWNER [IPv6] | ADDRESS|- [host=H] [pod=P]
[ready=B] [zone=Z] | ...`, `pod PATH [hostname=H] [subdomain=S] [reason=R]`, `import PATH TYPE [ips=ADDRESS]`; all with
`[ports=NAME/PROTOCOL/NUMBER,...]`, `[labels:KEY=VALUE,...]`, a Service with `[selector:KEY=VALUE,...]`
and `[annotations:KEY=VALUE,...]`;
`option NAME [VALUE]` of kubernetes, `front LINE` and `behind LINE` of the block, `multicluster [OPTION]` for a Corefile
with clusterset.local.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import structs

from hsdns.causes.view import View
from hsdns.cluster.objects import (
    Object,
    Pod,
    PodCondition,
    PodNames,
    PodStatus,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
)
from hsdns.cluster.source import Lead
from hsdns.explanation.explain import Explainer
from hsdns.explanation.live import LiveObjects, Seen
from hsdns.explanation.observed import Edges
from hsdns.explanation.report import Explanation
from hsdns.explanation.scene import ClusterObjects, Replay, Scene
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name
from tests.support.cluster.objects import HTTP, endpoint_slice, meta, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

ZONES = "cluster.local in-addr.arpa ip6.arpa"


def corefile(options: dict[str, str], front: str = "", behind: str = "") -> str:
    """A Corefile with a kubernetes block, and other plugins before and behind it."""
    lines = "".join(f"{name} {value}\n" for name, value in options.items())
    return f"{ZONES} {{\n{front}kubernetes {ZONES} {{\n{lines}}}\n{behind}}}\n"


class KnownObjects(LiveObjects):
    """A set of objects that is complete."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._seen = Seen(ClusterObjects(objects))

    async def see(self, lead: Lead) -> Seen:
        """Return all objects, for any question."""
        return self._seen

    async def view(self, seen: Seen, namespace: str, selector: Mapping[str, str]) -> View:
        """Return all objects: there are no workloads."""
        return View((type(each).__name__, each) for each in seen.objects)


async def go_on() -> None:
    """Pause for nobody."""


class Explained(NamedTuple):
    """A question's parts for the modules that an explanation is made of."""

    replay: Replay
    scene: Scene
    kept: ClusterObjects
    qname: Name
    qtype: int


def explain(question: str, *objects: Object, text: str = "", **options: str) -> Explanation:
    """The explanation of `QNAME [QTYPE]`; `text` is the Corefile, in place of one with options of kubernetes."""
    server = MemoryServer(text or corefile(options), None, objects)
    seeing = {id(each): KnownObjects(objects) for each in server.plugins}
    explainer = Explainer(server.configuration, seeing, Edges(server.runtime.queries.spawn))
    qname, _, qtype = question.partition(" ")
    coro = explainer.explain(Name.from_text(qname), type_from_text(qtype or "A"), 0.0)
    return turns(coro)[0]


def explained(question: str, *objects: Object, **options: str) -> Explained:
    """The parts of a question in zone cluster.local."""
    server = MemoryServer(corefile(options), None, objects)
    (block,) = server.plugins
    word, _, qtype = question.partition(" ")
    qname, kept = Name.from_text(word), ClusterObjects(objects)
    replay = Replay(block, Name.from_text("cluster.local."))
    parsed = block.answers.lookup.parse(qname, replay.zone)
    assert parsed is not None
    return Explained(
        replay, Scene.of(kept.of_name(parsed)), kept, qname, type_from_text(qtype or "A")
    )


def named_pod(
    path: str,
    address: str = "",
    *,
    hostname: str | None = None,
    subdomain: str | None = None,
    reason: str = "",
    labels: dict[str, str] | None = None,
) -> Pod:
    """A Pod with the fields that name it; with `reason` it is not ready."""
    conditions = [PodCondition("Ready", "False" if reason else "True", reason or None)]
    return Pod(
        meta(path, labels=labels),
        PodStatus(address, "Running", conditions),
        PodNames(hostname, subdomain),
    )


MULTICLUSTER = """clusterset.local cluster.local {{
kubernetes clusterset.local cluster.local {{
multicluster clusterset.local
{}
}}
}}
"""


def explain_row(text: str) -> Explanation:
    """The explanation of a row of a table."""
    question, *lines = text.splitlines()
    parts: dict[str, list[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        parts.setdefault(word, []).append(rest)
    objects = [each for line in lines if (each := _object(*line.split())) is not None]
    options = dict(each.partition(" ")[::2] for each in parts.get("option", ()))
    front, behind = (
        "".join(f"{each}\n" for each in parts.get(word, ())) for word in ("front", "behind")
    )
    config = corefile(options, front, behind)
    if "multicluster" in parts:
        config = MULTICLUSTER.format(parts["multicluster"][0])
    return explain(question, *objects, text=config)


def _object(kind: str, path: str = "", *words: str) -> Object | None:
    """The object of a line; None for another one."""
    head, *endpoints = " ".join(words).split("|")
    plain, given = list[str](), dict[str, str]()
    maps: dict[str, dict[str, str]] = {}
    for word in head.split():
        name, mark, value = word.partition(":" if re.match(r"\w+:\w+=|annotations:", word) else "=")
        if mark == ":":
            maps[name] = dict(pair.split("=") for pair in value.split(","))
        elif mark:
            given[name] = value
        else:
            plain.append(word)
    labels, ports = maps.get("labels"), list(filter(None, given.pop("ports", HTTP).split(",")))
    if kind == "namespace":
        return namespace(path, labels)
    if kind == "service":
        addresses, external = [each for each in plain if each != "none"], given.get("external")
        made = service(path, *addresses, ports=ports, external=external, labels=labels)
        ips = None if plain == ["none"] else made.spec.cluster_ips
        spec = structs.replace(made.spec, selector=maps.get("selector"), cluster_ips=ips)
        metadata = structs.replace(made.metadata, annotations=maps.get("annotations"))
        return structs.replace(made, spec=spec, metadata=metadata)
    if kind == "slice":
        owner, family = None if plain[0] == "-" else plain[0], "".join(plain[1:]) or "IPv4"
        return endpoint_slice(
            path, owner, *endpoints, ports=ports, address_type=family, labels=labels
        )
    if kind == "pod":
        return named_pod(path, labels=labels, **given)
    if kind == "import":
        listed = [ServicePort(80, "http", "TCP")] if ports else None
        ips = given["ips"].split(",") if "ips" in given else None
        meta_ = meta(path, labels=labels)
        return ServiceImport(meta_, ServiceImportSpec(plain[0], ports=listed, ips=ips))
    return None


def said_of(found: Explanation) -> dict[str, list[str]]:
    """The sentences of an explanation by the word that they stand behind in a row: the first line behind none.

    Behind a word without sentences is "none".
    """
    parts = found.service.slices if found.service is not None else []
    fates = [each for part in parts for each in part.endpoints]
    said = {
        "": [found.cause],
        "need": [each.needed for each in found.needed],
        "place": [each.place for each in found.needed],
        "near": [f"{each.name} ({each.why})" for each in found.nearest],
        "fate": [f"{each.fate}: {each.why}" if each.why else each.fate for each in fates],
        "did": [f"{each.plugin}: {each.did}" for each in found.plugins],
    }
    return {word: sentences or ["none"] for word, sentences in said.items()}
