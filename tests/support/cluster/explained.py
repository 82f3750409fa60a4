"""Explanations of questions to a server in memory.

Path: the tests of explanation/ -> MemoryServer, Explainer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hsdns.cluster.objects import Object, Pod, PodCondition, PodNames, PodStatus
from hsdns.cluster.source import Lead
from hsdns.explanation.explain import Explainer
from hsdns.explanation.live import LiveObjects, Seen
from hsdns.explanation.observed import Edges
from hsdns.explanation.report import Explanation
from hsdns.explanation.scene import ClusterObjects, Replay, Scene
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name
from tests.support.cluster.objects import meta
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
