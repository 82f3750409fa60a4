"""A store as it was at an earlier time, for queries that a rule of `fault` answers from an earlier state.

Path: the kubernetes plugin, for a request with `earlier` -> here -> lookup.py reads it as it reads a store.
Rule 1: nothing is copied: the newest value is read first, and then the values that were replaced (replaced.py).
Rule 2: all values are those of one time, so an answer from several values never mixes two states.
Rule 3: the settings, and whether the cluster can be watched, are the current ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from hsdns.cluster.pods import PodKey, PodsByAddress
from hsdns.cluster.replaced import (
    CLUSTER_IPS,
    ENDPOINT_IPS,
    EXTERNAL_IPS,
    IMPORTS,
    NAMESPACES,
    PODS,
    SERIALS,
    SERVICES,
    TERMINATING,
    Replaced,
    Table,
)
from hsdns.cluster.reverse import ReverseIndex
from hsdns.cluster.services import EXTERNAL_SERIAL, Services
from hsdns.cluster.store import OWN_SERIAL, SHARED_SERIAL, Store
from hsdns.cluster.value import Key, ServiceValue, SliceKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Owner = TypeVar("Owner", bound=tuple[object, ...])


class Moment:
    """The replaced values of a store, and a time in monotonic seconds."""

    def __init__(self, replaced: Replaced, time: float) -> None:
        self.replaced, self.time = replaced, time

    def at(self, table: Table, key: Hashable, newest: V) -> V:
        """The value at that time in place of the newest one."""
        found: V = self.replaced.at(table, key, self.time, newest)
        return found


class EarlierTable(Mapping[K, V], Generic[K, V]):
    """A dict as it was at that time."""

    def __init__(self, moment: Moment, table: Table, newest: Mapping[K, V]) -> None:
        self._moment, self._table, self._newest = moment, table, newest

    def __getitem__(self, key: K) -> V:
        """The value that a key had; raise KeyError if it had none."""
        found = self._moment.at(self._table, key, self._newest.get(key))
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
        return self._moment.at(self._table, address, self._newest.lookup(address))

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
        return self._moment.at(TERMINATING, key, key in self._newest)


class EarlierImports:
    """The ServiceImports at that time."""

    def __init__(self, moment: Moment, newest: Mapping[Key, ServiceValue]) -> None:
        self.values: Mapping[Key, ServiceValue] = EarlierTable(moment, IMPORTS, newest)


class EarlierServices:
    """The Services at that time."""

    def __init__(self, moment: Moment, newest: Services) -> None:
        self.values: Mapping[Key, ServiceValue] = EarlierTable(moment, SERVICES, newest.values)
        self.cluster_ips: EarlierAddresses[Key] = EarlierAddresses(
            moment, CLUSTER_IPS, newest.cluster_ips
        )
        self.endpoint_ips: EarlierAddresses[SliceKey] = EarlierAddresses(
            moment, ENDPOINT_IPS, newest.endpoint_ips
        )
        self.external_ips: EarlierAddresses[Key] = EarlierAddresses(
            moment, EXTERNAL_IPS, newest.external_ips
        )
        self._moment, self._newest = moment, newest

    @property
    def external_serial(self) -> int:
        """The serial of the zones of k8s_external."""
        return self._moment.at(SERIALS, EXTERNAL_SERIAL, self._newest.external_serial)


class EarlierStore:
    """A store as it was at a time; valid only if its `replaced` keeps the state of that time."""

    def __init__(self, store: Store, time: float) -> None:
        moment = Moment(store.replaced, time)
        self.settings = store.settings
        self.services = EarlierServices(moment, store.services)
        self.imports = EarlierImports(moment, store.imports.values)
        self.pods = PodsByAddress(
            EarlierTable(moment, PODS, store.pods.by_address),
            _Terminating(moment, store.pods.terminating),
        )
        self.namespaces: Mapping[bytes, str] = EarlierTable(moment, NAMESPACES, store.namespaces)
        self._moment, self._store = moment, store

    @property
    def serves(self) -> bool:
        """Whether there is a state to answer from; there is none before the first one."""
        return self._store.serves

    @property
    def restored(self) -> float | None:
        """The time at which the snapshot being served was saved."""
        return self._store.restored

    @property
    def lost(self) -> str:
        """Since when the API server cannot be watched."""
        return self._store.lost

    @property
    def serial(self) -> int:
        """The serial of the cluster's own zones."""
        return self._moment.at(SERIALS, OWN_SERIAL, self._store.serial)

    @property
    def shared_serial(self) -> int:
        """The serial of the zones of `multicluster`."""
        return self._moment.at(SERIALS, SHARED_SERIAL, self._store.shared_serial)
