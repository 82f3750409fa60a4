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

import msgspec

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service

HISTORY: Final = 20_000  # changes that are stored
# Path, kind and API version of what a DNS server requests.
KINDS: Final[dict[type[Object], tuple[str, str, str]]] = {
    Namespace: ("/api/v1/namespaces", "Namespace", "v1"),
    Service: ("/api/v1/services", "Service", "v1"),
    EndpointSlice: ("/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", "discovery.k8s.io/v1"),
    Pod: ("/api/v1/pods", "Pod", "v1"),
}  # fmt: skip
PATHS: Final = {path: kind for kind, (path, _, _) in KINDS.items()}
_INITIAL_END: Final = "k8s.io/initial-events-end"


class ApiHistory:
    """All objects, and the last `length` changes."""

    def __init__(self, length: int = HISTORY) -> None:
        self.version = 0
        self._objects: dict[type[Object], dict[tuple[str, str], bytes]] = {
            kind: {} for kind in KINDS
        }
        self._changes: deque[tuple[int, type[Object], bytes]] = deque(maxlen=length)

    def put(self, found: Object) -> None:
        """Add an object, or replace the one with its name."""
        key = found.metadata.namespace, found.metadata.name
        objects = self._objects[type(found)]
        event = b"MODIFIED" if key in objects else b"ADDED"
        objects[key] = self._note(event, found)

    def remove(self, found: Object) -> None:
        """Remove the object with a name."""
        self._objects[type(found)].pop((found.metadata.namespace, found.metadata.name), None)
        self._note(b"DELETED", found)

    def _note(self, event: bytes, found: Object) -> bytes:
        """Store a change; return the object with its version."""
        kind = type(found)
        self.version += 1
        meta = found.metadata
        stamped = msgspec.structs.replace(
            found, metadata=msgspec.structs.replace(meta, resource_version=str(self.version))
        )
        _, word, api_version = KINDS[kind]
        head = b'{"kind":"%b","apiVersion":"%b",' % (word.encode(), api_version.encode())
        encoded = head + msgspec.json.encode(stamped)[1:]
        self._changes.append(
            (self.version, kind, b'{"type":"%b","object":%b}\n' % (event, encoded))
        )
        return encoded

    def listed(self, kind: type[Object]) -> bytes:
        """The body of a list."""
        _, word, api_version = KINDS[kind]
        head = {
            "kind": f"{word}List",
            "apiVersion": api_version,
            "metadata": {"resourceVersion": str(self.version)},
        }
        items = b",".join(self._objects[kind].values())
        return b'%b,"items":[%b]}' % (msgspec.json.encode(head)[:-1], items)

    def initial(self, kind: type[Object]) -> Iterator[bytes]:
        """The lines of a streaming list, and the bookmark that ends it."""
        for encoded in list(self._objects[kind].values()):
            yield b'{"type":"ADDED","object":%b}\n' % encoded
        yield self.bookmark(kind, {_INITIAL_END: "true"})

    def bookmark(self, kind: type[Object], annotations: Mapping[str, str] | None = None) -> bytes:
        """The line of a bookmark, which tells a watch the current version."""
        _, word, api_version = KINDS[kind]
        found = {
            "kind": word,
            "apiVersion": api_version,
            "metadata": {"resourceVersion": str(self.version), "annotations": annotations or {}},
        }
        return b'{"type":"BOOKMARK","object":%b}\n' % msgspec.json.encode(found)

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
