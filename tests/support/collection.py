"""Objects of one kind in the fake API server, and the history that its watches read.

Path: fake_api.py -> Collection.
Rule 1: an object is stamped with the resourceVersion of the change that made it; the history keeps both of its states,
        so that a watch with a selector can tell what it saw before.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

Manifest = dict[str, Any]


class Kind(NamedTuple):
    """Where a kind of object is served."""

    name: str
    api_version: str
    plural: str
    namespaced: bool = True

    @property
    def prefix(self) -> str:
        """The URL path in front of the plural."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"


KINDS = (
    Kind("Service", "v1", "services"),
    Kind("Namespace", "v1", "namespaces", namespaced=False),
    Kind("Pod", "v1", "pods"),
    Kind("EndpointSlice", "discovery.k8s.io/v1", "endpointslices"),
)


class Change(NamedTuple):
    """One step in the history of a kind; `before` is None for an addition, `after` for a deletion."""

    version: int
    before: Manifest | None
    after: Manifest | None


class Collection:
    """All objects of a kind, and how they came to be as they are."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.history: list[Change] = []
        self.oldest = 0  # a watch from before this version is told 410
        self.changed = asyncio.Event()

    def put(self, manifest: Mapping[str, Any], version: int) -> Manifest:
        """Add or replace an object."""
        after = self._stamped(manifest, version)
        key = key_of(after)
        before = self.objects.get(key)
        self.objects[key] = after
        self._record(Change(version, before, after))
        return after

    def remove(self, manifest: Mapping[str, Any], version: int) -> None:
        """Delete an object; KeyError if there is none."""
        self._record(Change(version, self.objects.pop(key_of(manifest)), None))

    def compact(self, version: int) -> None:
        """Forget the history up to a version."""
        self.oldest = version
        self.history = [change for change in self.history if change.version > version]

    def wake(self) -> None:
        """Let the watches look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def _record(self, change: Change) -> None:
        self.history.append(change)
        self.wake()

    def _stamped(self, manifest: Mapping[str, Any], version: int) -> Manifest:
        after = copy.deepcopy(dict(manifest))
        after["apiVersion"], after["kind"] = self.kind.api_version, self.kind.name
        metadata = after.setdefault("metadata", {})
        if self.kind.namespaced:
            metadata.setdefault("namespace", "default")
        metadata["resourceVersion"] = str(version)
        metadata.setdefault("uid", f"{self.kind.plural}-{version}")
        return after


def key_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name; an object without a namespace is in `default` unless its kind has none."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]
