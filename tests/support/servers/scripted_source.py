"""A source of the cluster that delivers what a test tells it to, when the test tells it to.

Path: scenarios/drivers.py, cluster_server.py and memory_server.py put it in the place of a kubernetes block's source.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from hsdns.cluster import objects
from hsdns.cluster.objects import Deleted, Synced, Upserted
from hsdns.cluster.source import Deliver, Lead, Reading, Report, Surroundings
from hsdns.corefile.tree import Token
from tests.support.scenarios.scenario import Event, Manifest

KINDS: dict[str, Any] = {
    "Service": objects.Service,
    "EndpointSlice": objects.EndpointSlice,
    "Namespace": objects.Namespace,
    "Pod": objects.Pod,
    "ServiceImport": objects.ServiceImport,
}


class ScriptedSource:
    """A cluster.source.Source with scripted events; each kubernetes block has its own."""

    def __init__(self, manifests: Sequence[Manifest], *, synced: bool) -> None:
        self._events: list[objects.Event] = [Upserted(_object(manifest)) for manifest in manifests]
        self._synced = synced
        self._deliver: Deliver | None = None

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Never called: scenarios do not name their source."""
        raise NotImplementedError

    def check(self) -> list[str]:
        """Report no problems."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the objects, unless the scenario begins unsynced."""
        self._deliver = deliver
        if self._synced:
            deliver([*self._events, Synced()])

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Do nothing: feed() delivers."""

    async def read(self, lead: Lead) -> Reading:
        """Have nothing that could be read."""
        return Reading()

    def silence(self, now: float) -> float:
        """Always in contact: the scenario is the cluster."""
        return 0.0

    def feed(self, event: Event) -> None:
        """Deliver the changes of an event, in one batch."""
        assert self._deliver is not None, "loaded"
        if event.synced:
            self._deliver([*self._events, Synced()])
            return
        self._deliver(
            [
                (Deleted if verb == "delete" else Upserted)(_object(manifest))
                for verb, manifest in event.changes
            ]
        )


_versions = itertools.count(1)


def _object(manifest: Manifest) -> objects.Object:
    """Decode an object as a source would; each state has a resourceVersion of its own."""
    stamped = copy.deepcopy(manifest)
    stamped["metadata"]["resourceVersion"] = str(next(_versions))
    kind = KINDS[manifest["kind"]]
    found: objects.Object = msgspec.convert(stamped, kind)
    return found
