"""The objects of a scenario's cluster: manifests in, events out; the controllers are simulated.

Path: a scenario's manifests and steps -> here, cluster/controllers -> events -> stage.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import Deleted, Event, Object, Upserted
from hsdns.fault_scenarios.scenario import ScenarioError
from hsdns.sources.manifest_file import read_manifest_file

_Key = tuple[type[Object], str, str]


class Objects:
    """The current objects; each change returns its events."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str, str], Document] = {}
        self.current: dict[_Key, Object] = {}

    def change(self, manifests: str, delete: Iterable[str] = ()) -> list[Event]:
        """Add, replace and delete objects; raise ScenarioError."""
        found = read_manifest_file(manifests.encode(), "manifests")
        if found.problems:
            raise ScenarioError(found.problems[0])
        self._documents.update((each.key, each) for each in found.documents)
        for written in delete:
            kind, _, path = written.partition(" ")
            namespace, _, name = path.partition("/")
            if self._documents.pop((kind, namespace, name), None) is None:
                raise ScenarioError(f"there is no {written} that could be deleted")
        before = self.current
        self.current = {_key(each): each for each in simulate(self._documents.values())}
        changed: list[Event] = [
            Upserted(each) for key, each in self.current.items() if before.get(key) != each
        ]
        return changed + [Deleted(each) for key, each in before.items() if key not in self.current]


def _key(each: Object) -> _Key:
    return type(each), each.metadata.namespace, each.metadata.name
