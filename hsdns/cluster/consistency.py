"""A check of the store: one rebuilt from a list of all objects must equal the one that has applied the events.

Path: sources/store_check.py passes on lists of the API server -> here -> sentences about the differences.
Rule 1: only what affects answers and indexes is compared, not its representation; the order of slices and owners does
        not matter.
Rule 2: a list and a store that keeps changing differ for a moment without a fault.  A difference is confirmed only if
        two successive lists show it and no object involved has changed between them.
Rule 3: a check of a large cluster takes seconds.  It runs in steps of STEP objects so that queries and events are
        handled in between; Rule 2 covers what changes meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, TypeVar

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, ServiceImport, Upserted
from hsdns.cluster.pack import import_owner, pack_key, pack_label, slice_owner
from hsdns.cluster.rejected import quoted
from hsdns.cluster.reverse import ReverseIndex
from hsdns.cluster.store import Store
from hsdns.cluster.value import Key, ServiceValue, SliceKey
from hsdns.metrics import Counter, Registry

STEP: Final = 50  # objects, or keys to compare, between two steps
T = TypeVar("T")
Subject = tuple[str, Hashable]  # a kind and a name


class Difference(NamedTuple):
    """A difference between a store and the objects: the object that it is about, and a sentence."""

    subject: Subject
    sentence: str


def inconsistencies_in(metrics: Registry) -> Counter:
    """The counter of confirmed differences."""
    return metrics.counter(
        "hsdns_store_inconsistencies_total",
        "Differences between the store and the API server's objects, each found by two checks in a row.",
    )


class ConsistencyCheck:
    """Compares a store with successive lists of all objects."""

    def __init__(self) -> None:
        self._suspects: dict[str, Hashable] = {}
        self._reported: set[str] = set()

    def steps(self, store: Store, objects: Sequence[Object]) -> Generator[None, None, list[str]]:
        """Check the next list in steps of a few milliseconds; the generator returns the confirmed sentences.

        A sentence is returned once for as long as its difference exists.  A store that is not synced is not checked.
        """
        if not store.synced:
            self._suspects = {}
            return []
        built = empty_like(store)
        for at in range(0, len(objects), STEP):
            built.apply([Upserted(each) for each in objects[at : at + STEP]])
            yield
        versions, terminating = _versions(objects), terminating_pods(objects)
        suspects: dict[str, Hashable] = {}
        for found in compare(store, built):
            if found is None:
                yield
            elif found.subject not in terminating:
                suspects[found.sentence] = frozenset(versions.get(found.subject, ()))
        confirmed = {
            sentence for sentence, seen in suspects.items() if self._suspects.get(sentence) == seen
        }
        new = [sentence for sentence in suspects if sentence in confirmed - self._reported]
        self._suspects, self._reported = suspects, confirmed
        return new


def compare(store: Store, expected: Store) -> Iterator[Difference | None]:
    """The differences between two stores in Services, ServiceImports, namespaces, pods and the indexes of addresses.

    Yields None after every STEP keys, so that the caller can let other tasks run.
    """
    services, expected_services = store.services, expected.services
    yield from _value_differences("Service", services.values, expected_services.values)
    for name in _keys(store.namespaces, expected.namespaces):
        here, there = store.namespaces.get(name), expected.namespaces.get(name)
        if here != there:
            yield Difference(
                ("Namespace", name), f"Namespace {_text(name)}: {_versions_differ(here, there)}"
            )
    for at, address in enumerate(_keys(store.pods.by_address, expected.pods.by_address)):
        if not at % STEP:
            yield None
        pods = set(store.pods.by_address.get(address, ()))
        real_pods = set(expected.pods.by_address.get(address, ()))
        for pod in sorted(pods ^ real_pods):
            what = "still leads to it" if pod in pods else "does not lead to it"
            yield Difference(
                ("Pod", (pod[0], pod[1])),
                f"Pod {_text(pod[0])}/{pod[1]}: {_address_text(address)} {what}",
            )
    yield from _value_differences("ServiceImport", store.imports.values, expected.imports.values)
    for what, here_too, there_too in (
        ("external IP", services.external_ips, expected_services.external_ips),
        ("clusterIP", services.cluster_ips, expected_services.cluster_ips),
        ("endpoint", services.endpoint_ips, expected_services.endpoint_ips),
    ):
        yield from _index_differences(what, here_too, there_too)


def empty_like(store: Store) -> Store:
    """An empty store with the same settings; invalid objects are not reported again."""
    return Store(store.settings, wall=lambda: 0.0, warn=lambda sentence: None)


def _value_differences(
    kind: str, here: Mapping[Key, ServiceValue], there: Mapping[Key, ServiceValue]
) -> Iterator[Difference | None]:
    for at, key in enumerate(_keys(here, there)):
        if not at % STEP:
            yield None
        for sentence in _service_differences(here.get(key), there.get(key)):
            yield Difference((kind, key), f"{kind} {_path(key)}: {sentence}")


def _service_differences(here: ServiceValue | None, there: ServiceValue | None) -> Iterator[str]:
    if here is None or there is None:
        version = (here or there or ServiceValue(None)).resource_version or "none"
        places = "the API has it, the store does not"
        yield f"{places if here is None else 'the store has it, the API does not'} (version {version})"
        return
    if here.slices == there.slices and _own(here) == _own(there):
        return
    if (here.resource_version, here.kind) != (there.resource_version, there.kind):
        yield (
            f"the store has version {here.resource_version or 'none'} ({here.kind or 'only slices'}), "
            f"the API {there.resource_version or 'none'} ({there.kind or 'only slices'})"
        )
    fields = ("clusterIPs", "ports", "externalName", "selector", "external addresses")
    for field, own, real in zip(fields, _own(here)[2:], _own(there)[2:], strict=True):
        if own != real:
            yield f"the store and the API differ in {field}"
    mine, theirs = _parts(here), _parts(there)
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) == theirs.get(name):
            continue
        if name not in mine or name not in theirs:
            what = "is not in the store" if name not in mine else "is only in the store"
            yield f"slice {name} {what}"
        else:
            yield (
                f"slice {name} is version {mine[name][0]} with {mine[name][1]} addresses in the store, "
                f"version {theirs[name][0]} with {theirs[name][1]} in the API"
            )


def _own(value: ServiceValue) -> tuple[Hashable, ...]:
    return (
        value.resource_version,
        value.kind,
        value.cluster_ips,
        value.ports,
        value.external_name,
        value.has_selector,
        value.external,
    )


def _parts(value: ServiceValue) -> dict[str, tuple[str, int, Hashable]]:
    """The slices by name: version, number of hosts, and all of their content."""
    found: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
    for part in value.slices:
        found[part.name].append(tuple(part))
    return {
        name: (
            str(parts[0][1]),
            sum(part.host_count for part in value.slices if part.name == name),
            tuple(sorted(parts, key=repr)),
        )
        for name, parts in found.items()
    }


def _index_differences(
    what: str, here: ReverseIndex[Any], there: ReverseIndex[Any]
) -> Iterator[Difference | None]:
    for at, address in enumerate(sorted(_keys(here.addresses(), there.addresses()))):
        if not at % STEP:
            yield None
        owners, real = here.lookup(address), there.lookup(address)
        if owners == real:
            continue
        for owner in sorted({*owners} ^ {*real}):
            leads = "still leads" if owner in owners else "does not lead"
            yield Difference(
                ("Service", (owner[0], owner[1])),
                f"Service {_path(owner)}: {what} {_address_text(address)} {leads} back to it",
            )


def terminating_pods(objects: Iterable[Object]) -> set[Subject]:
    """Pods that are being deleted: a store keeps those that it had before, but does not add new ones."""
    return {
        ("Pod", (pack_label(each.metadata.namespace), each.metadata.name))
        for each in objects
        if isinstance(each, Pod) and each.metadata.deletion_timestamp
    }


def _versions(objects: Iterable[Object]) -> dict[Subject, set[Hashable]]:
    """The versions of all objects that a subject consists of."""
    found: defaultdict[Subject, set[Hashable]] = defaultdict(set)
    for each in objects:
        meta = each.metadata
        subject: Subject
        seen = (type(each).__name__, meta.name, meta.resource_version)
        if isinstance(each, EndpointSlice):
            found["ServiceImport", import_owner(meta)].add(seen)
            subject = ("Service", slice_owner(meta))
        elif isinstance(each, ServiceImport):
            subject = ("ServiceImport", pack_key(meta))
        elif isinstance(each, Pod):
            subject = ("Pod", (pack_label(meta.namespace), meta.name))
        elif isinstance(each, Namespace):
            subject = ("Namespace", pack_label(meta.name))
        else:
            subject = ("Service", pack_key(meta))
        found[subject].add(seen)
    return found


def _keys(here: Iterable[T], there: Iterable[T]) -> list[T]:
    """All keys of two mappings, each once."""
    return list(dict.fromkeys((*here, *there)))


def _versions_differ(here: str | None, there: str | None) -> str:
    if here is None:
        return "the API has it, the store does not"
    if there is None:
        return "the store has it, the API does not"
    return f"the store has version {here or 'none'}, the API {there or 'none'}"


def _path(key: Key | SliceKey) -> str:
    return f"{_text(key[0])}/{_text(key[1])}"


def _text(label: bytes) -> str:
    return quoted(label.decode("utf-8", "replace"))[1:-1]


def _address_text(address: bytes) -> str:
    return str(ip_address(address))
