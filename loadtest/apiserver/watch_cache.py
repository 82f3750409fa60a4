"""The watch cache of one kind in the fake API server: its objects, and the history that watches read.

Path: fake_cluster.py -> WatchCache.
Rule 1: an object is stored as the JSON that is sent, encoded once when it changes, with the resourceVersion of that
        change.
Rule 2: the history has both states of each change, so that a watch with a selector knows what it sent before, and an
        older snapshot can be computed from the newest one.  It is bounded; older versions are answered with 410.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

Manifest = dict[str, Any]
Key = tuple[str, str]  # namespace and name; a kind without namespaces has "default" there

HISTORY: Final = (
    50_000  # minimum of changes in the history, at most twice as many; kube-apiserver keeps as many
)


class Kind(NamedTuple):
    """Where a kind of object is served; `bookmark_fields` are in a bookmark of the kind beside its metadata."""

    name: str
    api_version: str
    plural: str
    namespaced: bool = True
    bookmark_fields: Mapping[str, Any] = {}

    @property
    def prefix(self) -> str:
        """The URL path in front of the plural."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"

    @property
    def group(self) -> str:
        """The API group, "" for the core."""
        return self.api_version.rpartition("/")[0]


KINDS: Final = (
    Kind("Service", "v1", "services", bookmark_fields={"spec": {}, "status": {"loadBalancer": {}}}),
    Kind(
        "Namespace",
        "v1",
        "namespaces",
        namespaced=False,
        bookmark_fields={"spec": {}, "status": {}},
    ),
    Kind("Pod", "v1", "pods", bookmark_fields={"spec": {"containers": None}, "status": {}}),
    Kind(
        "EndpointSlice",
        "discovery.k8s.io/v1",
        "endpointslices",
        bookmark_fields={"addressType": "", "endpoints": None, "ports": None},
    ),
    Kind("ConfigMap", "v1", "configmaps"),
    Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies"),
    Kind("ServiceImport", "multicluster.x-k8s.io/v1alpha1", "serviceimports"),
)


class Stored(NamedTuple):
    """An object since one version."""

    version: int
    data: bytes

    @property
    def manifest(self) -> Manifest:
        """The object, decoded."""
        found: Manifest = msgspec.json.decode(self.data)
        return found


class Change(NamedTuple):
    """One step in the history of a kind; `before` is None for an addition, `after` for a deletion."""

    version: int
    key: Key
    before: Stored | None
    after: Stored | None


class WatchCache:
    """All objects of a kind, and the history of their changes."""

    def __init__(self, kind: Kind, history: int = HISTORY) -> None:
        self.kind = kind
        self.objects: dict[Key, Stored] = {}
        self.oldest = 0  # a watch from before this version gets 410
        self.begin = 0  # the position of the oldest change in the history; that of the first change ever is 0
        self._changes: list[Change] = []
        self._limit = history
        self._sorted: list[Key] | None = None

    @property
    def end(self) -> int:
        """The position of the next change."""
        return self.begin + len(self._changes)

    def put(self, manifest: Mapping[str, Any], version: int) -> Manifest:
        """Add or replace an object; one that has no uid keeps that of the object it replaces."""
        after = copy.deepcopy(dict(manifest))
        after["apiVersion"], after["kind"] = self.kind.api_version, self.kind.name
        metadata = after.setdefault("metadata", {})
        if self.kind.namespaced:
            metadata.setdefault("namespace", "default")
        key = key_of(after)
        before = self.objects.get(key)
        metadata["resourceVersion"] = str(version)
        if "uid" not in metadata:
            uid = before.manifest["metadata"]["uid"] if before is not None else None
            metadata["uid"] = uid or f"{self.kind.plural}-{version}"
        self.put_encoded(key, msgspec.json.encode(after), version)
        return after

    def put_encoded(self, key: Key, data: bytes, version: int) -> None:
        """Add or replace an object whose JSON is ready, stamped with this very version."""
        before, after = self.objects.get(key), Stored(version, data)
        if before is None:
            self._sorted = None
        self.objects[key] = after
        self._record(Change(version, key, before, after))

    def remove(self, key: Key, version: int) -> None:
        """Delete an object; KeyError if there is none."""
        before = self.objects.pop(key)
        self._sorted = None
        self._record(Change(version, key, before, None))

    def compact(self, version: int) -> None:
        """Forget the history up to a version."""
        self.oldest = max(self.oldest, version)
        self._forget(self.position_after(version) - self.begin)

    def rewind(self, version: int) -> None:
        """Return to a version in the history and clear the history, as after a restore from a backup."""
        self.objects = dict(self.snapshot(version))
        self._sorted = None
        self._forget(len(self._changes))
        self.oldest = version

    def change(self, position: int) -> Change:
        """The change at a position from `begin` to before `end`."""
        return self._changes[position - self.begin]

    def position_after(self, version: int) -> int:
        """The position of the first change after a version."""
        return self.begin + bisect_right(self._changes, version, key=lambda change: change.version)

    def snapshot(self, version: int, after: Key | None = None) -> Iterator[tuple[Key, Stored]]:
        """Yield the objects as they were at a version (`oldest` or newer), in order, beginning after a key."""
        objects, keys = self.objects, self._keys()
        position = self.position_after(version)
        if position < self.end:
            objects = dict(objects)
            for change in reversed(self._changes[position - self.begin :]):
                if change.before is None:
                    objects.pop(change.key, None)
                else:
                    objects[change.key] = change.before
            keys = sorted(objects)
        begin = 0 if after is None else bisect_right(keys, after)
        # A list, because the objects may change while it is read.
        return iter([(key, objects[key]) for key in keys[begin:]])

    def _keys(self) -> list[Key]:
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        return self._sorted

    def _record(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > 2 * self._limit:  # amortized over many changes
            self.oldest = self._changes[-self._limit - 1].version
            self._forget(self._limit + 1)

    def _forget(self, count: int) -> None:
        del self._changes[:count]
        self.begin += count


def key_of(manifest: Mapping[str, Any]) -> Key:
    """Namespace and name; an object without a namespace is in `default`, as is one whose kind has none."""
    metadata = manifest["metadata"]
    return metadata.get("namespace", "default"), metadata["name"]
