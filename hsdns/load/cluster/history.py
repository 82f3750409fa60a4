"""The objects of a simulated cluster as the Kubernetes API serves them: lists, and watches from a version on.

Path: churn.py adds objects -> here -> api.py answers requests with the octets.
Rule 1: the resourceVersion of all kinds is the number of the change.  An object is encoded once for all watches.
Rule 2: a watch from a version that is no longer stored gets a 410, and its client lists again.
Source: Kubernetes API concepts, "Efficient detection of changes" and "Streaming lists".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import json, structs

from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES, Resource
from hsdns.cluster.objects import Object

HISTORY: Final = 20_000  # changes that are stored
# What a DNS server requests.
RESOURCES: Final[dict[type[Object], Resource]] = {
    each.type: each for each in (NAMESPACES, SERVICES, ENDPOINT_SLICES, PODS)
}
PATHS: Final = {f"{each.prefix}/{each.plural}": kind for kind, each in RESOURCES.items()}
_INITIAL_END: Final = "k8s.io/initial-events-end"


class ApiHistory:
    """All objects, and the last `length` changes."""

    def __init__(self, length: int = HISTORY) -> None:
        self.version = 0
        self._objects: dict[type[Object], dict[tuple[str, str], bytes]] = {
            kind: {} for kind in RESOURCES
        }
        self._changes: deque[tuple[int, type[Object], bytes]] = deque(maxlen=length)

    def put(self, found: Object) -> None:
        """Add an object, or replace the one with its name."""
        objects = self._objects[type(found)]
        objects[found.key] = self._note(b"MODIFIED" if found.key in objects else b"ADDED", found)

    def remove(self, found: Object) -> None:
        """Remove the object with a name."""
        self._objects[type(found)].pop(found.key, None)
        self._note(b"DELETED", found)

    def _note(self, event: bytes, found: Object) -> bytes:
        """Store a change; return the object with its version."""
        kind = type(found)
        self.version += 1
        meta = structs.replace(found.metadata, resource_version=str(self.version))
        stamped = json.encode(structs.replace(found, metadata=meta))
        encoded = b"%b,%b" % (_head(kind)[:-1], stamped[1:])
        self._changes.append((self.version, kind, _line(event, encoded)))
        return encoded

    def listed(self, kind: type[Object]) -> bytes:
        """The body of a list."""
        head = _head(kind, "List", metadata={"resourceVersion": str(self.version)})
        return b'%b,"items":[%b]}' % (head[:-1], b",".join(self._objects[kind].values()))

    def initial(self, kind: type[Object]) -> Iterator[bytes]:
        """The lines of a streaming list, and the bookmark that ends it."""
        for encoded in list(self._objects[kind].values()):
            yield _line(b"ADDED", encoded)
        yield self.bookmark(kind, {_INITIAL_END: "true"})

    def bookmark(self, kind: type[Object], annotations: Mapping[str, str] | None = None) -> bytes:
        """The line of a bookmark, which tells a watch the current version."""
        meta = {"resourceVersion": str(self.version), "annotations": annotations or {}}
        return _line(b"BOOKMARK", _head(kind, metadata=meta))

    def since(self, kind: type[Object], version: int) -> list[bytes] | None:
        """The lines of the changes of a kind after a version; None if some of them are no longer stored."""
        changes = self._changes
        if version < self.version and (not changes or changes[0][0] > version + 1):
            return None
        found = []
        for number, each, line in reversed(changes):
            if number <= version:
                break
            if each is kind:
                found.append(line)
        return found[::-1]


def _head(kind: type[Object], suffix: str = "", **fields: object) -> bytes:
    """An object with its kind and version, and more fields."""
    resource = RESOURCES[kind]
    version = resource.prefix.removeprefix("/api/").removeprefix("/apis/")
    return json.encode({"kind": resource.kind + suffix, "apiVersion": version, **fields})


def _line(event: bytes, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event, encoded)
