"""A store as it was at an earlier time, for queries that a rule of `fault` answers from an earlier state.

Path: the kubernetes plugin, for a request with `earlier` -> here -> lookup.py reads it as it reads a store.
Rule 1: nothing is copied: the newest value is read first, and then the values that were replaced (replaced.py).
Rule 2: all values are those of one time, so an answer from several values never mixes two states.
Rule 3: the settings, and whether the cluster can be watched, are those at the time of the request.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from hsdns.cluster.pods import PodsByAddress
from hsdns.cluster.replaced import (
    CLUSTER_IPS,
    ENDPOINT_IPS,
    EXTERNAL_IPS,
    EXTERNAL_SERIAL,
    IMPORTS,
    NAMESPACES,
    OWN_SERIAL,
    PODS,
    SERIALS,
    SERVICES,
    SHARED_SERIAL,
    TERMINATING,
    Replaced,
    Table,
)
from hsdns.cluster.services import AddressOwners
from hsdns.cluster.store import Store
from hsdns.cluster.value import Key, ServiceValue, SliceKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class EarlierTable(Mapping[K, V], Generic[K, V]):
    """A dict as it was at a time, in monotonic seconds; an index of addresses is one, too."""

    def __init__(
        self, replaced: Replaced, time: float, table: Table, newest: Mapping[K, V]
    ) -> None:
        self._replaced, self._time = replaced, time
        self._table, self._newest = table, newest

    def __getitem__(self, key: K) -> V:
        """The value that a key had; raise KeyError if it had none."""
        found: V | None = self._replaced.at(self._table, key, self._time, self._newest.get(key))
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[K]:
        """The keys that had a value."""
        keys = dict.fromkeys([*self._newest, *self._replaced.keys(self._table)])
        return (key for key in keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class EarlierImports(NamedTuple):
    """The ServiceImports at that time."""

    values: EarlierTable[Key, ServiceValue]
    serial: int


class EarlierServices(NamedTuple):
    """The Services at that time."""

    values: EarlierTable[Key, ServiceValue]
    cluster_ips: AddressOwners[Key]
    endpoint_ips: AddressOwners[SliceKey]
    external_ips: AddressOwners[Key]
    external_serial: int


class EarlierStore:
    """A store as it was at a time; valid only if its `replaced` keeps the state of that time."""

    def __init__(self, store: Store, time: float) -> None:
        services, pods, at = store.services, store.pods, store.replaced.at
        table = partial(EarlierTable, store.replaced, time)
        self.settings, self.serves = store.settings, store.serves
        self.restored, self.lost = store.restored, store.lost
        self.serial: int = at(SERIALS, OWN_SERIAL, time, store.serial)
        self.namespaces = table(NAMESPACES, store.namespaces)
        self.imports = EarlierImports(
            table(IMPORTS, store.imports.values),
            at(SERIALS, SHARED_SERIAL, time, store.imports.serial),
        )
        self.services = EarlierServices(
            table(SERVICES, services.values),
            AddressOwners(table(CLUSTER_IPS, services.cluster_ips.owners)),
            AddressOwners(table(ENDPOINT_IPS, services.endpoint_ips.owners)),
            AddressOwners(table(EXTERNAL_IPS, services.external_ips.owners)),
            at(SERIALS, EXTERNAL_SERIAL, time, services.external_serial),
        )
        self.pods = PodsByAddress(
            table(PODS, pods.by_address), table(TERMINATING, pods.terminating)
        )


# The state that answers are computed from: the newest or an earlier one.
ClusterView = Store | EarlierStore
