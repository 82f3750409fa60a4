"""The differences between a store and the objects that it should have, or another store.

Only what affects answers and indexes is compared, not its representation: the order of slices and of owners does not
matter.  A terminating pod may be in a store or not: it stays in one that had it before, but is not added to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from hsdns.cluster.objects import Object, Pod, Upserted
from hsdns.cluster.pack import pack_label
from hsdns.cluster.store import Store
from hsdns.cluster.value import ServiceValue

State = dict[tuple[object, ...], object]


def differences(store: Store, objects: Iterable[Object]) -> list[str]:
    """A sentence for each difference between a store and one that is built from the objects."""
    listed = list(objects)
    built = empty_like(store)
    built.apply([Upserted(each) for each in listed])
    terminating = {
        (pack_label(each.metadata.namespace), each.metadata.name)
        for each in listed
        if isinstance(each, Pod) and each.metadata.deletion_timestamp
    }
    return compare(store, built, terminating)


def compare(
    store: Store, expected: Store, terminating: set[tuple[bytes | None, str]] | None = None
) -> list[str]:
    """A sentence for each difference between two stores, except about terminating pods."""
    here, there = _state(store), _state(expected)
    return [
        f"{' '.join(map(str, key))}: the store has {here.get(key)}, and should have {there.get(key)}"
        for key in dict.fromkeys((*here, *there))
        if here.get(key) != there.get(key)
        if key[0] != "pod" or key[1] not in (terminating or ())
    ]


def empty_like(store: Store) -> Store:
    """An empty store with the same settings; invalid objects are not reported."""
    return Store(store.settings, wall=lambda: 0.0, warn=lambda sentence: None)


def _state(store: Store) -> State:
    """All that a store answers from, by kind and name."""
    services = store.services
    found: State = {("namespace", name): version for name, version in store.namespaces.items()}
    found |= {("Service", *key): _content(value) for key, value in services.values.items()}
    found |= {
        ("ServiceImport", *key): _content(value) for key, value in store.imports.values.items()
    }
    for address, pods in store.pods.by_address.items():
        found |= {("pod", pod, str(ip_address(address))): True for pod in pods}
    for what, index in (
        ("external IP", services.external_ips),
        ("clusterIP", services.cluster_ips),
        ("endpoint", services.endpoint_ips),
    ):
        for address in index.addresses():
            found[what, str(ip_address(address))] = set(index.lookup(address))
    return found


def _content(value: ServiceValue) -> tuple[object, ...]:
    return (
        value.resource_version,
        value.kind,
        value.cluster_ips,
        value.ports,
        value.external_name,
        value.has_selector,
        value.external,
        sorted(map(repr, value.slices)),
    )
