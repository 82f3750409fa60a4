"""A store as it was at an earlier time, for queries that a rule of `fault` answers from an earlier state.

Path: the kubernetes plugin, for a request with `earlier` -> here -> lookup.py reads it as it reads a store.
Rule 1: nothing is copied: the newest value is read first, and then the values that were replaced (replaced.py).
Rule 2: all values are those of one time, so an answer from several values never mixes two states.
Rule 3: the settings, and whether the cluster can be watched, are those at the time of the request.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from hsdns.cluster.pods import PodKey, PodsByAddress
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
from hsdns.cluster.services import ReverseIndex
from hsdns.cluster.store import Store
from hsdns.cluster.value import Key, ServiceValue, SliceKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Owner = TypeVar("Owner", bound=tuple[object, ...])


class Moment(NamedTuple):
    """The replaced values of a store, and a time in monotonic seconds."""

    replaced: Replaced
    time: float

    def at(self, table: Table, key: Hashable, newest: Any) -> Any:
        """The value at that time in place of the newest one."""
        return self.replaced.at(table, key, self.time, newest)


class EarlierTable(Mapping[K, V], Generic[K, V]):
    """A dict as it was at that time."""

    def __init__(self, moment: Moment, table: Table, newest: Mapping[K, V]) -> None:
        self._moment, self._table, self._newest = moment, table, newest

    def __getitem__(self, key: K) -> V:
        """The value that a key had; raise KeyError if it had none."""
        found: V | None = self._moment.at(self._table, key, self._newest.get(key))
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[K]:
        """The keys that had a value."""
        keys = dict.fromkeys([*self._newest, *self._moment.replaced.keys(self._table)])
        return (key for key in keys if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class EarlierAddresses(Generic[Owner]):
    """An index of addresses as it was at that time."""

    def __init__(self, moment: Moment, table: Table, newest: ReverseIndex[Owner]) -> None:
        self._moment, self._table, self._newest = moment, table, newest

    def lookup(self, address: bytes) -> tuple[Owner, ...]:
        """The owners of an address at that time."""
        found: tuple[Owner, ...] = self._moment.at(
            self._table, address, self._newest.lookup(address)
        )
        return found

    def addresses(self) -> list[bytes]:
        """All addresses that had an owner at that time."""
        known = [*self._newest.addresses(), *self._moment.replaced.keys(self._table)]
        return [each for each in dict.fromkeys(known) if self.lookup(each)]


class _Terminating:
    """The pods that were terminating at that time."""

    def __init__(self, moment: Moment, newest: set[PodKey]) -> None:
        self._moment, self._newest = moment, newest

    def __contains__(self, key: object) -> bool:
        assert isinstance(key, tuple), "a pod"
        return bool(self._moment.at(TERMINATING, key, key in self._newest))


class EarlierImports(NamedTuple):
    """The ServiceImports at that time."""

    values: EarlierTable[Key, ServiceValue]
    serial: int


class EarlierServices(NamedTuple):
    """The Services at that time."""

    values: EarlierTable[Key, ServiceValue]
    cluster_ips: EarlierAddresses[Key]
    endpoint_ips: EarlierAddresses[SliceKey]
    external_ips: EarlierAddresses[Key]
    external_serial: int


class EarlierStore:
    """A store as it was at a time; valid only if its `replaced` keeps the state of that time."""

    def __init__(self, store: Store, time: float) -> None:
        moment, services, pods = Moment(store.replaced, time), store.services, store.pods
        self.settings, self.serves = store.settings, store.serves
        self.restored, self.lost = store.restored, store.lost
        self.serial: int = moment.at(SERIALS, OWN_SERIAL, store.serial)
        self.namespaces = EarlierTable(moment, NAMESPACES, store.namespaces)
        self.imports = EarlierImports(
            EarlierTable(moment, IMPORTS, store.imports.values),
            moment.at(SERIALS, SHARED_SERIAL, store.imports.serial),
        )
        self.services = EarlierServices(
            EarlierTable(moment, SERVICES, services.values),
            EarlierAddresses(moment, CLUSTER_IPS, services.cluster_ips),
            EarlierAddresses(moment, ENDPOINT_IPS, services.endpoint_ips),
            EarlierAddresses(moment, EXTERNAL_IPS, services.external_ips),
            moment.at(SERIALS, EXTERNAL_SERIAL, services.external_serial),
        )
        self.pods = PodsByAddress(
            EarlierTable(moment, PODS, pods.by_address), _Terminating(moment, pods.terminating)
        )


# The state that answers are computed from: the newest or an earlier one.
ClusterView = Store | EarlierStore
