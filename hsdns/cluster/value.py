"""One Service with its EndpointSlices as an immutable, packed value; an event replaces the whole value.

Path: pack.py makes it, services.py stores it, schema.py computes records from it.
Rule 1: the Service is the unit of immutability.  A reply is computed from one value, so it never mixes two states.
Rule 2: addresses are stored as adjacent octets, not as objects, and records are not stored.  (100,000 endpoints: 46 MB
        packed against 165 MB as RRsets with references; see docs/decisions/0001.)
Rule 3: only `nodes` changes: it caches the records made for the first query and is dropped with the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hsdns.cluster.address import dashed
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

NO_PORT: Final = -1  # as in CoreDNS, for a Service or slice without a port number
Key = tuple[bytes, bytes]  # namespace, name; lower case
SliceKey = tuple[bytes, bytes, str]  # the key of the Service and the name of the slice

CLUSTER_IP: Final = "cluster_ip"
HEADLESS: Final = "headless"
EXTERNAL_NAME: Final = "external_name"


class Port(NamedTuple):
    """A port of a Service or of a slice; `name` and `protocol` in lower case, b"" if it has none."""

    name: bytes
    protocol: bytes
    number: int


# For an object without ports: a port that matches questions without port labels.
NO_PORTS: Final = (Port(b"", b"", NO_PORT),)


class PackedSlice(NamedTuple):
    """The ready endpoints of one EndpointSlice whose addresses have the same width.

    `labels` has the label of each address below the Service, after an octet with its length, which is 0 for a dashed
    address (join_labels()); None if all are dashed addresses.  `targets` replaces the addresses in slices of type FQDN.
    A part is not `reversible` if its addresses were not written in canonical form: CoreDNS compares texts, so PTR does
    not find them.
    `topology_zones[i]` is the topology zone of address i in lower case; None if no zone is known or none is needed.
    `cluster` is the source cluster of a ServiceImport's endpoints, b"" for those of a Service.  `not_ready` is, in the
    first part of a slice, the number of addresses omitted because their endpoint is not ready, if that is counted.
    """

    name: str
    resource_version: str
    width: int  # octets per address: 4 or 16; 0 for FQDN targets
    addresses: bytes
    labels: bytes | None
    ports: tuple[Port, ...]
    targets: tuple[Name, ...] = ()
    reversible: bool = True
    topology_zones: tuple[bytes, ...] | None = None
    cluster: bytes = b""
    not_ready: int = 0

    @property
    def host_count(self) -> int:
        """The number of addresses or targets."""
        return len(self.addresses) // self.width if self.width else len(self.targets)

    @property
    def separate(self) -> list[bytes]:
        """The addresses one by one, in order."""
        width, addresses = self.width, self.addresses
        return [addresses[at : at + width] for at in range(0, len(addresses), width or 1)]

    @property
    def hosts(self) -> Sequence[bytes | Name]:
        """All addresses or FQDN targets, in order."""
        return self.separate if self.width else self.targets

    def host(self, index: int) -> bytes | Name:
        """Address or FQDN target number `index`."""
        width = self.width
        return self.addresses[index * width : (index + 1) * width] if width else self.targets[index]

    @property
    def own_labels(self) -> list[bytes]:
        """The label of each address, b"" for the dashed address."""
        packed = self.labels
        if packed is None:
            return [b""] * self.host_count
        found, at = [], 0
        while at < len(packed):
            end = at + 1 + packed[at]
            found.append(packed[at + 1 : end])
            at = end
        return found

    @property
    def places(self) -> Iterator[tuple[bytes | Name, bytes]]:
        """Each address or target, with its label below the Service."""
        for host, label in zip(self.hosts, self.own_labels, strict=True):
            yield host, label or _default_label(host)

    def label(self, index: int) -> bytes:
        """The label of address number `index` below its Service."""
        own = b"" if self.labels is None else self.own_labels[index]
        return own or _default_label(self.host(index))

    def positions(self, address: bytes) -> Iterator[int]:
        """The indexes of an address: searches the packed octets, and accepts only whole addresses."""
        width = self.width
        if len(address) != width or not self.reversible:
            return
        at = self.addresses.find(address)
        while at >= 0:
            if at % width == 0:
                yield at // width
            at = self.addresses.find(address, at + 1)


def _default_label(host: bytes | Name) -> bytes:
    """The label of an address without one of its own; a target has none."""
    return b"" if isinstance(host, Name) else dashed(host)


def join_labels(labels: Sequence[bytes | None]) -> bytes | None:
    """The labels of a PackedSlice; None for a dashed address."""
    joined = b"".join(bytes((len(each or b""),)) + (each or b"") for each in labels)
    return joined if any(joined) else None


class Entry(NamedTuple):
    """One (address, port) pair that matches a question; SRV weights are computed from their number."""

    host: bytes | Name
    label: bytes | None  # None: the Service's own name is the SRV target
    port: int
    cluster: bytes = b""


@dataclass(slots=True, eq=False)
class Node:
    """The records at one existing name; `targets` are names to follow instead of addresses.

    `first` is the first address or target, `entry_count` the number of (address, port) pairs.  `srv` holds the answer
    and additional section for SRV once they have been asked for.
    """

    a: tuple[RR, ...]
    aaaa: tuple[RR, ...]
    entry_count: int
    first: bytes | Name | None
    targets: tuple[Name, ...]
    srv: tuple[tuple[RR, ...], tuple[RR, ...]] | None = None


@dataclass(slots=True, eq=False)
class ServiceValue:
    """A Service (or ServiceImport) and its slices; either may be missing.

    `kind` is None while only slices are known: then it has reverse names, but no forward names.  `external` are the
    addresses, or names of load balancers, by which it is reached from outside; `has_selector` is only for metrics.
    """

    kind: str | None
    resource_version: str = ""
    cluster_ips: tuple[bytes, ...] = ()
    ports: tuple[Port, ...] = ()
    external_name: Name | None = None
    slices: tuple[PackedSlice, ...] = ()
    has_selector: bool = False
    external: tuple[bytes | Name, ...] = ()
    nodes: dict[bytes, Node] = field(default_factory=dict, init=False)
    _labels: dict[bytes, tuple[tuple[PackedSlice, int], ...]] | None = field(
        default=None, init=False
    )

    def with_slices(self, slices: tuple[PackedSlice, ...]) -> ServiceValue:
        """A copy with other slices and without cached records."""
        return ServiceValue(
            self.kind,
            self.resource_version,
            self.cluster_ips,
            self.ports,
            self.external_name,
            slices,
            self.has_selector,
            self.external,
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has neither a Service, not even one that DNS cannot represent, nor slices."""
        return self.kind is None and not self.slices and not self.resource_version

    @property
    def has_port(self) -> bool:
        """Whether a slice with endpoints has one of the Service's ports, or it has none."""
        if self.ports == NO_PORTS:
            return True
        filled = (part.ports for part in self.slices if part.addresses and part.ports != NO_PORTS)
        return not {each.name for each in self.ports}.isdisjoint(
            each.name for ports in filled for each in ports
        )

    @property
    def has_endpoints(self) -> bool:
        """Whether at least one endpoint is ready."""
        return any(part.host_count for part in self.slices)

    @property
    def told(self) -> dict[str, list[str]]:
        """What istiod tells its agents: addresses by the label of an endpoint with a host name, "" for the Service."""
        found = {"": [*map(address_to_text, self.cluster_ips)]}
        for part in self.slices if self.kind == HEADLESS and self.ports != NO_PORTS else ():
            for address, label in zip(
                part.separate, part.own_labels, strict=False
            ):  # names have none
                for each in {b"", label}:
                    found.setdefault(each.decode(), []).append(address_to_text(address))
        return found

    @property
    def readiness(self) -> tuple[int, int]:
        """The numbers of ready and of all endpoints; for a dual-stack Service in the family with the most."""
        found = {part.width: (0, 0) for part in self.slices}
        for part in self.slices:
            ready, count = found[part.width]
            hosts = part.host_count
            found[part.width] = ready + hosts, count + hosts + part.not_ready
        return max(found.values(), key=lambda each: each[1], default=(0, 0))

    def entries(
        self, endpoint: bytes | None, port: bytes, protocol: bytes, cluster: bytes = b""
    ) -> Iterator[Entry]:
        """The entries that match a question; `endpoint` None is the Service's own name, b"" any port or protocol.

        Not for ExternalName Services.  Source: CoreDNS 1.14.7 plugin/kubernetes findServices.
        """
        if endpoint is not None:
            for part, index in self.labels.get(endpoint, ()):
                if part.cluster != cluster:
                    continue
                for found in part.ports:
                    if port_matches(found, port, protocol):
                        yield Entry(part.host(index), endpoint, found.number, cluster)
        elif self.kind == HEADLESS:
            for part in self.slices:
                ports = [
                    found.number for found in part.ports if port_matches(found, port, protocol)
                ]
                if ports:
                    for host, label in part.places:
                        for number in ports:
                            yield Entry(host, label, number, part.cluster)
        else:
            for found in self.ports:
                if port_matches(found, port, protocol):
                    for address in self.cluster_ips:
                        yield Entry(address, None, found.number)

    def hosts(self, port: bytes, protocol: bytes) -> tuple[list[bytes | Name], int]:
        """The hosts of entries() for the Service's own name, and the number of entries.

        For A and AAAA, which need no labels: making labels would be most of the work after each event.
        """
        found: list[bytes | Name] = []
        count = 0
        if self.kind == HEADLESS:
            for part in self.slices:
                ports = sum(port_matches(each, port, protocol) for each in part.ports)
                if ports:
                    found += part.hosts
                    count += ports * part.host_count
        else:
            for each in self.ports:
                if port_matches(each, port, protocol):
                    found += self.cluster_ips
            count = len(found)
        return found, count

    def entries_in(self, topology_zone: bytes) -> Iterator[Entry]:
        """The entries in one topology zone."""
        for part in self.slices:
            if part.topology_zones is None:
                continue
            for (host, label), zone in zip(part.places, part.topology_zones, strict=True):
                if zone == topology_zone:
                    for found in part.ports:
                        yield Entry(host, label, found.number, part.cluster)

    def has_topology_zone(self, topology_zone: bytes) -> bool:
        """Whether any endpoint is in a topology zone."""
        return topology_zone != b"" and any(
            topology_zone in (part.topology_zones or ()) for part in self.slices
        )

    @property
    def labels(self) -> dict[bytes, tuple[tuple[PackedSlice, int], ...]]:
        """Endpoint labels with the positions of their addresses; computed when first used."""
        if self._labels is None:
            found: dict[bytes, list[tuple[PackedSlice, int]]] = {}
            for part in self.slices:
                for index, (_, label) in enumerate(part.places):
                    found.setdefault(label, []).append((part, index))
            self._labels = {label: tuple(places) for label, places in found.items()}
        return self._labels


def port_matches(found: Port, port: bytes, protocol: bytes) -> bool:
    """Whether a port has the name and protocol of a question; b"" is any."""
    return (not port or found.name == port) and (not protocol or found.protocol == protocol)
