"""The view of a cluster's state that answers are computed from: the newest (store.py) or an earlier state (earlier.py).

Path: lookup.py, answer.py, nameserver.py and external.py read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from hsdns.cluster.pods import PodsByAddress
from hsdns.cluster.store import StoreSettings
from hsdns.cluster.value import Key, ServiceValue, SliceKey

Owner = TypeVar("Owner", covariant=True)


class AddressesView(Protocol[Owner]):
    """Addresses, and the keys of the objects that have them."""

    def lookup(self, address: bytes) -> tuple[Owner, ...]:
        """The owners of an address."""

    def addresses(self) -> list[bytes]:
        """All addresses that have an owner."""


class ImportsView(Protocol):
    """The ServiceImports."""

    @property
    def values(self) -> Mapping[Key, ServiceValue]:
        """By namespace and name."""


class ServicesView(ImportsView, Protocol):
    """The Services."""

    @property
    def cluster_ips(self) -> AddressesView[Key]:
        """The Services by cluster IP."""

    @property
    def endpoint_ips(self) -> AddressesView[SliceKey]:
        """The slices by the addresses of their endpoints."""

    @property
    def external_ips(self) -> AddressesView[Key]:
        """The Services by external address."""

    @property
    def external_serial(self) -> int:
        """The serial of the zones of k8s_external."""


class ClusterView(Protocol):
    """A state of a cluster; store.Store describes its parts."""

    @property
    def settings(self) -> StoreSettings:
        """The settings of its store."""

    @property
    def serves(self) -> bool:
        """Whether there is a state to answer from."""

    @property
    def restored(self) -> float | None:
        """The time at which the snapshot being served was saved."""

    @property
    def lost(self) -> str:
        """Since when the API server cannot be watched."""

    @property
    def serial(self) -> int:
        """The serial of the cluster's own zones."""

    @property
    def shared_serial(self) -> int:
        """The serial of the zones of `multicluster`."""

    @property
    def namespaces(self) -> Mapping[bytes, str]:
        """The namespaces."""

    @property
    def services(self) -> ServicesView:
        """The Services with their slices."""

    @property
    def imports(self) -> ImportsView:
        """The ServiceImports with their slices."""

    @property
    def pods(self) -> PodsByAddress:
        """The pods."""
