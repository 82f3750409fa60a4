"""The watch cache of one kind in the fake API server: its objects, the history, and the watches that read it.

Path: fake_cluster.py -> Selection (what a request selects), WatchCache (each kind), Watch (each open one) ->
      fake_api.py or memory_api.py, which sends the lines of a watch.
Rule 1: an object is stored as the JSON that is sent, encoded once when it changes, with the resourceVersion of that
        change.
Rule 2: the history has both states of each change, so that a watch with a selector knows what it sent before, and an
        older snapshot can be computed from the newest one.  It is bounded; older versions are answered with 410.
Rule 3: lines are computed when they are taken; a watch has a position in the history, no queue.
Rule 4: a watch whose position is no longer in the history gets 410 as ERROR event, and ends.
Source: Kubernetes documentation, "Field Selectors"; labels are selected as hsdns does it itself.
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hsdns.cluster.objects import Selector
from loadtest.apiserver.faults import error_line, status_body

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


# --- selectors ---

_TERM: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)")
_NAME: Final = re.compile(r"(?:^|,)metadata\.name==?([^,]+)")


class Selection:
    """The objects of a kind that a request selects; raises ValueError if a selector cannot be parsed."""

    def __init__(self, namespace: str | None, labels: str = "", fields: str = "") -> None:
        self.namespace = namespace
        named = _NAME.search(fields)
        self.name = named[1] if named else None
        self.is_all = namespace is None and not labels and not fields
        self._labels = Selector.from_text(labels) if labels else None
        self._fields = [_read_term(term.strip()) for term in fields.split(",") if term.strip()]

    def matches(self, key: Key, stored: Stored) -> bool:
        """Whether an object is selected; it is decoded only if a selector needs its fields."""
        if self.is_all:
            return True
        if self.namespace is not None and key[0] != self.namespace:
            return False
        if self._labels is None and not self._fields:
            return True
        manifest = stored.manifest
        if self._labels is not None and not self._labels.matches(manifest["metadata"].get("labels")):  # fmt: skip
            return False
        return all(
            (_field(manifest, path) == value) is is_wanted
            for path, is_wanted, value in self._fields
        )


def _read_term(term: str) -> tuple[str, bool, str]:
    """A term of a field selector: a dotted path, whether it is to have a value, and the value."""
    found = _TERM.fullmatch(term)
    if found is None:
        raise ValueError(f'field selector "{term}" is not PATH=VALUE or PATH!=VALUE')
    return found[1], found[2] != "!=", found[3]


def _field(manifest: Mapping[str, Any], path: str) -> str:
    at: Any = manifest
    for step in path.split("."):
        at = at.get(step) if isinstance(at, Mapping) else None
    return "" if at is None else str(at)


# --- watches ---

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Watch:
    """A watch; take() its lines.  `wake` is called when more lines may be due; none are after `ended`."""

    def __init__(
        self,
        cache: WatchCache,
        selection: Selection,
        since: int,
        *,
        bookmarks: bool = False,
        initial: Iterable[bytes] = (),
        initial_end: bytes | None = None,
        is_held: Callable[[], bool] = lambda: False,
        forget: Callable[[Watch], object] = lambda watch: None,
    ) -> None:
        self.cache = cache
        self.bookmarks = bookmarks
        self.ended = False
        self.wake: Callable[[], None] = lambda: None
        self.encode: Callable[[bytes], bytes] = bytes  # of a line, as it is sent
        self._selection = selection
        self._position = cache.position_after(since)
        self._added: deque[tuple[int, bytes | None]] = (
            deque()
        )  # position and line; None ends the watch
        self._initial_end = initial_end
        self._is_held = is_held
        self._forget = forget
        self._lines = self._due(initial)

    def take(self, count: int | None = None) -> list[bytes]:
        """Take the lines that are due now, at most `count` of them."""
        taken: list[bytes] = []
        while not self.ended and (count is None or len(taken) < count):
            try:
                line = next(self._lines)
            except StopIteration:
                self.close()
                break
            if line is None:
                break
            taken.append(self.encode(line))
        return taken

    def add(self, line: bytes | None) -> None:
        """Send these octets after the lines that are due now; None ends the watch there."""
        self._added.append((self.cache.end, line))
        self.wake()

    def close(self) -> None:
        """End the watch; lines that were not taken are lost."""
        if not self.ended:
            self.ended = True
            self._forget(self)
            self.wake()

    def seen(self, change: Change) -> bytes | None:
        """Return the event of a change for this watch, None if it gets none."""
        key, before, after = change.key, change.before, change.after
        matches = self._selection.matches
        matched = before is not None and matches(key, before)
        if after is not None and matches(key, after):
            return event_line(b"MODIFIED" if matched else b"ADDED", after.data)
        if before is None or not matched:
            return None
        return event_line(b"DELETED", _last_state(before, change.version))

    def _due(self, initial: Iterable[bytes]) -> Iterator[bytes | None]:
        """Yield lines, and None where nothing more is due for now."""
        yield from initial
        while self._is_held():
            yield None
        if self._initial_end is not None:
            yield self._initial_end
        cache = self.cache
        while True:
            stop = self._added[0][0] if self._added else cache.end
            if self._position < min(stop, cache.begin):
                message = f"too old resource version ({cache.oldest})"
                yield error_line(status_body(410, "Expired", message))
                return
            while self._position < stop:
                change = cache.change(self._position)
                self._position += 1
                line = self.seen(change)
                if line is not None:
                    yield line
                    if self._position < cache.begin:
                        break  # the history was cut while the line was sent
            else:
                if self._added:
                    _, added = self._added.popleft()
                    if added is None:
                        return
                    yield added
                elif self._position >= cache.end:
                    yield None


def event_line(kind: bytes, data: bytes) -> bytes:
    """Encode one watch event around an object's JSON."""
    return b'{"type":"%b","object":%b}\n' % (kind, data)


def bookmark_line(kind: Kind, version: int, *, ends_initial: bool = False) -> bytes:
    """Encode a bookmark, with the fields that a server leaves in it."""
    metadata: dict[str, object] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    bookmark = {
        "kind": kind.name,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        **kind.bookmark_fields,
    }
    return event_line(b"BOOKMARK", msgspec.json.encode(bookmark))


def _last_state(before: Stored, version: int) -> bytes:
    """The object as it was, stamped with the version of its end."""
    last = before.manifest
    last["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(last)
