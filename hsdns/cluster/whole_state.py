"""All objects of a store, rebuilt from the packed values.

Path: Store -> here -> unpack.py; snapshot.py and server/control/watch.py write them.
Rule 1: the state is that of one moment: references to the immutable values are taken at once; the objects are made
        afterwards, one by one.  Only in the thread that writes the store is that moment between two events.
Rule 2: a store may count endpoints that are not ready, but does not have their addresses: versioned() gives them the
        unspecified address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Self

from hsdns.cluster.pods import PodKey
from hsdns.cluster.store import Store
from hsdns.cluster.unpack import (
    import_slice_labels,
    unpack_import,
    unpack_namespace,
    unpack_pod,
    unpack_service,
)
from hsdns.cluster.value import Key, ServiceValue

UNSPECIFIED: Final = {4: "0.0.0.0", 16: "::"}  # by width


class WholeState(NamedTuple):
    """The values of a store at one moment, and whether it served from them."""

    services: list[tuple[Key, ServiceValue]]
    imports: list[tuple[Key, ServiceValue]]
    namespaces: dict[bytes, str]
    pods: list[tuple[bytes, tuple[PodKey, ...]]]
    terminating: set[PodKey]
    pod_labels: dict[PodKey, dict[str, str]]
    serves: bool

    @classmethod
    def of(cls, store: Store) -> Self:
        """Take the references."""
        return cls(
            list(store.services.values.items()),
            sorted(store.imports.values.items(), key=lambda item: item[0]),
            dict(store.namespaces),
            list(store.pods.by_address.items()),
            set(store.pods.terminating),
            dict(store.pods.labels or {}),
            store.serves,
        )

    def objects(self) -> Iterator[dict[str, Any]]:
        """The objects, without their resource versions."""
        yield from map(unpack_namespace, self.namespaces)
        unwritten = import_slice_labels(self.imports)
        for key, value in self.services:
            yield from unpack_service(key, value, unwritten)
        for key, value in self.imports:
            yield from unpack_import(key, value, unwritten)
        for address, owners in self.pods:
            for pod in owners:
                yield unpack_pod(pod, address, self.pod_labels.get(pod))

    def versioned(self) -> Iterator[dict[str, Any]]:
        """The objects that give a store of the same state and the same versions, if they are applied in order."""
        for namespace, version in self.namespaces.items():
            yield _with(unpack_namespace(namespace), resourceVersion=version)
        unwritten = import_slice_labels(self.imports)
        for key, value in self.services:
            yield from _versioned(unpack_service(key, value, unwritten), value)
        for key, value in self.imports:
            yield from _versioned(unpack_import(key, value, unwritten), value)
        for address, owners in self.pods:
            for pod in owners:
                labels = self.pod_labels.get(pod)
                yield unpack_pod(pod, address, labels)
                if pod in self.terminating:  # a store ignores one first seen terminating
                    yield _with(unpack_pod(pod, address, labels), deletionTimestamp="unknown")


def _versioned(made: Iterator[dict[str, Any]], value: ServiceValue) -> Iterator[dict[str, Any]]:
    """The objects of a value, with their versions and the endpoints that are not ready."""
    versions = {part.name: part.resource_version for part in value.slices}
    not_ready = {part.name: part for part in value.slices if part.not_ready}
    for each in made:
        if each["kind"] != "EndpointSlice":
            yield _with(each, resourceVersion=value.resource_version)
            continue
        name = each["metadata"]["name"]
        if name in not_ready:
            part = not_ready[name]
            addresses = [UNSPECIFIED.get(part.width, "")] * part.not_ready
            each["endpoints"].append({"addresses": addresses, "conditions": {"ready": False}})
        yield _with(each, resourceVersion=versions[name])


def _with(made: dict[str, Any], **members: str) -> dict[str, Any]:
    """The object, with these members added to its metadata, except empty ones."""
    made["metadata"] |= {name: text for name, text in members.items() if text}
    return made
