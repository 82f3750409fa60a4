"""The objects for a question that a store has, as far as packed values keep them.

Path: explanation/live.py, if the source cannot be read -> here -> unpack.py.
Rule 1: a store has no endpoints that are not ready, no selectors and no pods of endpoints, so they are not here.
Rule 2: no search.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from hsdns.cluster.address import pack_address
from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service, ServiceImport
from hsdns.cluster.reading import Lead
from hsdns.cluster.store import Store
from hsdns.cluster.unpack import (
    import_slice_labels,
    unpack_import,
    unpack_namespace,
    unpack_pod,
    unpack_service,
)
from hsdns.cluster.value import Key, ServiceValue

Versions = dict[tuple[type[Object], str, str], str]  # by kind, namespace and name


def stored_objects(store: Store, lead: Lead) -> list[Object]:
    """The objects of a lead, with the resource versions that the store has."""
    found: list[Object] = [
        msgspec.convert(unpack_namespace(each), Namespace)
        for each in lead.namespaces
        if each in store.namespaces
    ]
    for key in lead.services:
        found += _of_service(store, key, lead.shared)
    address = pack_address(lead.address) if lead.address else None
    if address is not None:
        pods = store.pods.by_address.get(address, ())
        found += [msgspec.convert(unpack_pod(each, address, None), Pod) for each in pods]
    versions = stored_versions(store, lead)
    return [_versioned(each, versions) for each in found]


def stored_versions(store: Store, lead: Lead) -> Versions:
    """The resource versions of a lead's Services, ServiceImports and slices, as far as the store has them."""
    found: Versions = {}
    for key in lead.services:
        value = _value(store, key, lead.shared)
        if value is None:
            continue
        namespace, name = (each.decode("utf-8", "replace") for each in key)
        if value.kind is not None:
            kind = ServiceImport if lead.shared else Service
            found[kind, namespace, name] = value.resource_version
        for part in value.slices:
            found[EndpointSlice, namespace, part.name] = part.resource_version
    return found


def _value(store: Store, key: Key, shared: bool) -> ServiceValue | None:
    return (store.imports if shared else store.services).values.get(key)


def _of_service(store: Store, key: Key, shared: bool) -> Iterator[Object]:
    value = _value(store, key, shared)
    if value is None:
        return
    made: Iterator[dict[str, Any]]
    if shared:
        made = unpack_import(key, value, import_slice_labels([(key, value)]))
    else:
        made = unpack_service(key, value, {})
    for each in made:
        if each["kind"] == "EndpointSlice":
            yield msgspec.convert(each, EndpointSlice)
        elif shared:
            yield msgspec.convert(each, ServiceImport)
        else:
            yield msgspec.convert(each, Service)


def _versioned(found: Object, versions: Versions) -> Object:
    meta = found.metadata
    version = versions.get((type(found), meta.namespace, meta.name), "")
    return structs.replace(found, metadata=structs.replace(meta, resource_version=version))
