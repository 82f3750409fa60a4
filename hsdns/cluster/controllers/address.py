"""Allocation of addresses from a network, the same ones at every start.

Path: workload.py allocates addresses for pods, address.py for Services.
Rule 1: the search for an owner's address starts at a hash of its name (BLAKE2b) and goes on to the next address while
        one is in use.  So other objects matter only if two hashes collide.
Rule 2: owners allocate in sorted order, so the order of files does not matter.

ClusterIPs for Services without one, and the address families of each Service:
Rule: the defaults are those of the API server of a dual-stack cluster whose first family is IPv4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec

from hsdns.cluster.objects import Service, ServiceSpec

# kind's defaults: podSubnet 10.244.0.0/16,fd00:10:244::/56 and serviceSubnet 10.96.0.0/16,fd00:10:96::/112.
POD_NETWORKS = {"IPv4": "10.244.0.0", "IPv6": "fd00:10:244::"}
SERVICE_NETWORKS = {"IPv4": "10.96.0.0", "IPv6": "fd00:10:96::"}
FAMILIES = ("IPv4", "IPv6")
# k8s.io/apimachinery/pkg/util/rand: no vowels, no 0, 1 and 3
SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class AddressPool:
    """The addresses of a network between two offsets, without those in `taken`.

    Nothing is computed before the first allocation, since a dump of a cluster needs none.
    """

    def __init__(self, network: str, first: int, last: int, taken: Iterable[str]) -> None:
        self._network = ip_address(network)
        self._first = first
        self._last = last
        self._reserved = taken

    def allocate(self, owner: str) -> str | None:
        """Allocate an address for an owner; None if the network is full."""
        size = self._last - self._first + 1
        if len(self._taken) >= size:
            return None
        at = hashed(owner) % size
        while self._first + at in self._taken:
            at = (at + 1) % size
        self._taken.add(self._first + at)
        return str(self._network + (self._first + at))

    @cached_property
    def _taken(self) -> set[int]:
        base = int(self._network)
        offsets = {
            int(each) - base
            for each in _parsed(self._reserved)
            if each.version == self._network.version
        }
        if self._network.version == 4:
            # The first and the last address of each /24 look like network and broadcast addresses.
            for block in range(0, self._last + 1, 0x100):
                offsets |= {block, block + 0xFF}
        return {offset for offset in offsets if self._first <= offset <= self._last}


def pod_pools(taken: Iterable[str]) -> dict[str, AddressPool]:
    """The pools of pod addresses, by family."""
    known = list(taken)
    return {
        "IPv4": AddressPool(POD_NETWORKS["IPv4"], 1, 0xFFFF, known),
        "IPv6": AddressPool(POD_NETWORKS["IPv6"], 1, 0xFFFF_FFFF, known),
    }


def service_pools(taken: Iterable[str]) -> dict[str, AddressPool]:
    """The pools of ClusterIPs, by family; the lowest 256 are reserved for static ones, as in the API server."""
    known = list(taken)
    return {
        family: AddressPool(SERVICE_NETWORKS[family], 0x100, 0xFFFF, known) for family in FAMILIES
    }


def _parsed(texts: Iterable[str]) -> Iterator[IPv4Address | IPv6Address]:
    for text in texts:
        with suppress(ValueError):
            yield ip_address(text)


def family_of(address: str) -> str:
    """The family of an address: IPv4 or IPv6."""
    return "IPv6" if ":" in address else "IPv4"


def hashed(text: str) -> int:
    """A hash of a text, the same on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def letters(text: str, count: int) -> str:
    """The suffix of a generated name, derived from a text."""
    number = hashed(text)
    made = []
    for _ in range(count):
        number, at = divmod(number, len(SAFE_LETTERS))
        made.append(SAFE_LETTERS[at])
    return "".join(made)


HEADLESS = "None"


def given_cluster_ips(service: Service) -> list[str]:
    """The cluster IPs in the manifest, or the word `None`; the first is clusterIP."""
    return service.spec.cluster_ips or []


def with_cluster_ips(service: Service, pools: Mapping[str, AddressPool]) -> Service:
    """Fill in families and addresses; if the network is full, the Service has no address."""
    spec = service.spec
    if spec.type == "ExternalName":
        return service
    families = _families(spec, given_cluster_ips(service))
    if service.is_headless:
        addresses = [HEADLESS]
    else:
        given = {family_of(address): address for address in given_cluster_ips(service)}
        owner = f"{service.metadata.namespace}/{service.metadata.name}"
        # An object of an API server may have a family that is none.
        known = [family for family in families if family in pools]
        found = (given.get(family) or pools[family].allocate(owner) for family in known)
        addresses = [address for address in found if address is not None]
    filled = msgspec.structs.replace(
        spec,
        cluster_ip=addresses[0] if addresses else None,
        cluster_ips=addresses,
        ip_families=families,
    )
    return msgspec.structs.replace(service, spec=filled)


def _families(spec: ServiceSpec, given: list[str]) -> list[str]:
    families = [family_of(each) for each in given if each != HEADLESS]
    families += [each for each in spec.ip_families or () if each not in families]
    if not families:
        families = [FAMILIES[0]]
    if spec.ip_family_policy != "SingleStack":
        families += [each for each in FAMILIES if each not in families]
    return families
