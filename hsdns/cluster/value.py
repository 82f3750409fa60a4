"""One Service as DNS sees it: a frozen, packed value that an event replaces whole.

Path: pack.py makes it, store.py keeps it, schema.py computes records from it.
Rule 1: the Service is the unit of immutability.  A reply is computed from one value, so it never mixes two states.
Rule 2: addresses are bytes side by side, not objects; nothing is stored a record.  (100,000 endpoints: 46 MB packed and
        lazy against 165 MB as RRsets with references; see docs/decisions/0001.)
Rule 3: `nodes` is the one thing that changes: records made at the first question, dropped with the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.cluster.schema import Node

NO_PORT: Final = -1  # what CoreDNS puts where a Service or slice has no port number
Key = tuple[bytes, bytes]  # namespace, name; lower case
SliceKey = tuple[bytes, bytes, str]  # the same and the slice's own name

CLUSTER_IP: Final = "cluster_ip"
HEADLESS: Final = "headless"
EXTERNAL_NAME: Final = "external_name"


class Port(NamedTuple):
    """A port of a Service or of a slice; `name` and `protocol` in lower case, "" where there is none."""

    name: bytes
    protocol: bytes
    number: int


class PackedSlice(NamedTuple):
    """The ready endpoints of one EndpointSlice that have addresses of one width.

    `labels[i]` is the name that address i has beneath the Service, None for the dashed address; `labels` itself is
    None where no address has a name.  `targets` stands in for addresses in slices of addressType FQDN.  A part is not
    `reversible` whose addresses were not written in the usual form: CoreDNS compares texts, so PTR misses them.
    `topology_zones[i]` is where address i is, in lower case; None where none is known, or none is asked for.  `cluster`
    is where the endpoints of a ServiceImport are, b"" for a Service's.
    """

    name: str
    resource_version: str
    width: int  # octets an address: 4 or 16; 0 for FQDN targets
    addresses: bytes
    labels: tuple[bytes | None, ...] | None
    ports: tuple[Port, ...]
    targets: tuple[Name, ...] = ()
    reversible: bool = True
    topology_zones: tuple[bytes, ...] | None = None
    cluster: bytes = b""

    @property
    def host_count(self) -> int:
        """How many addresses or targets there are."""
        return len(self.addresses) // self.width if self.width else len(self.targets)

    @property
    def separate(self) -> list[bytes]:
        """The addresses one by one, in their order."""
        width, addresses = self.width, self.addresses
        return [addresses[at : at + width] for at in range(0, len(addresses), width or 1)]

    @property
    def hosts(self) -> Sequence[bytes | Name]:
        """All addresses or FQDN targets, in their order."""
        return self.separate if self.width else self.targets

    def host(self, index: int) -> bytes | Name:
        """Address or FQDN target number `index`."""
        width = self.width
        return self.addresses[index * width : (index + 1) * width] if width else self.targets[index]

    def label(self, index: int) -> bytes:
        """The label of address number `index` beneath its Service."""
        if self.labels is not None:
            label = self.labels[index]
            if label is not None:
                return label
        host = self.host(index)
        return b"" if isinstance(host, Name) else dashed(host)

    def positions(self, address: bytes) -> Iterator[int]:
        """Where an address stands; a search through the packed bytes, aligned to whole addresses."""
        width = self.width
        if len(address) != width or not self.reversible:
            return
        at = self.addresses.find(address)
        while at >= 0:
            if at % width == 0:
                yield at // width
            at = self.addresses.find(address, at + 1)


class Entry(NamedTuple):
    """One (address, port) pair that matches a question; the unit in which SRV weights count."""

    host: bytes | Name
    label: bytes | None  # None: the Service's own name is the SRV target
    port: int
    cluster: bytes = b""


class ServiceValue:
    """All of one Service: its object, if it was seen, and its slices, if any were."""

    __slots__ = (
        "_labels",
        "cluster_ips",
        "external",
        "external_name",
        "has_selector",
        "kind",
        "nodes",
        "ports",
        "resource_version",
        "slices",
    )

    def __init__(
        self,
        kind: str | None,
        resource_version: str = "",
        cluster_ips: tuple[bytes, ...] = (),
        ports: tuple[Port, ...] = (),
        external_name: Name | None = None,
        slices: tuple[PackedSlice, ...] = (),
        has_selector: bool = False,
        external: tuple[bytes | Name, ...] = (),
    ) -> None:
        self.kind = kind  # None while only slices were seen: no forward names, but reverse ones
        self.resource_version = resource_version
        self.cluster_ips = cluster_ips
        self.ports = ports
        self.external_name = external_name
        self.slices = slices
        self.has_selector = has_selector  # for metrics alone
        # External addresses, or names of load balancers.
        self.external = external
        self.nodes: dict[bytes, Node] = {}
        self._labels: dict[bytes, tuple[tuple[PackedSlice, int], ...]] | None = None

    def with_slices(self, slices: tuple[PackedSlice, ...]) -> ServiceValue:
        """The value after an event about one of its slices."""
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
        """Whether nothing is known of it any more."""
        return self.kind is None and not self.slices

    @property
    def has_endpoints(self) -> bool:
        """Whether any endpoint is ready."""
        return any(part.host_count for part in self.slices)

    def entries(
        self, endpoint: bytes | None, port: bytes, protocol: bytes, cluster: bytes = b""
    ) -> Iterator[Entry]:
        """What a question finds; `endpoint` None for the Service's own name, port and protocol b"" for any.

        Source: CoreDNS 1.14.7 plugin/kubernetes findServices; ExternalName is not asked here.
        """
        if endpoint is not None:
            for part, index in self.labels.get(endpoint, ()):
                if part.cluster != cluster:
                    continue
                for found in part.ports:
                    if _matches(found, port, protocol):
                        yield Entry(part.host(index), endpoint, found.number, cluster)
        elif self.kind == HEADLESS:
            for part in self.slices:
                ports = [found.number for found in part.ports if _matches(found, port, protocol)]
                if ports:
                    for index in range(part.host_count):
                        host, label = part.host(index), part.label(index)
                        for number in ports:
                            yield Entry(host, label, number, part.cluster)
        else:
            for found in self.ports:
                if _matches(found, port, protocol):
                    for address in self.cluster_ips:
                        yield Entry(address, None, found.number)

    def hosts(self, port: bytes, protocol: bytes) -> tuple[list[bytes | Name], int]:
        """The hosts of entries() for the Service's own name, and how many entries there are.

        What A and AAAA ask for: an event made the value a new one a moment ago, and labels are most of the work.
        """
        found: list[bytes | Name] = []
        count = 0
        if self.kind == HEADLESS:
            for part in self.slices:
                ports = sum(_matches(each, port, protocol) for each in part.ports)
                if ports:
                    found += part.hosts
                    count += ports * part.host_count
        else:
            for each in self.ports:
                if _matches(each, port, protocol):
                    found += self.cluster_ips
            count = len(found)
        return found, count

    def entries_in(self, topology_zone: bytes) -> Iterator[Entry]:
        """What a question for one topology zone finds."""
        for part in self.slices:
            for index, zone in enumerate(part.topology_zones or ()):
                if zone == topology_zone:
                    host, label = part.host(index), part.label(index)
                    for found in part.ports:
                        yield Entry(host, label, found.number, part.cluster)

    @property
    def labels(self) -> dict[bytes, tuple[tuple[PackedSlice, int], ...]]:
        """Endpoint labels and where they stand, made at the first question for one."""
        if self._labels is None:
            found: dict[bytes, list[tuple[PackedSlice, int]]] = {}
            for part in self.slices:
                for index in range(part.host_count):
                    label = part.label(index)
                    found.setdefault(label, []).append((part, index))
            self._labels = {label: tuple(places) for label, places in found.items()}
        return self._labels


def dashed(address: bytes) -> bytes:
    """The label of an address without a hostname: dots and colons as dashes, `0` after a final one."""
    if len(address) == 4:
        return b"%d-%d-%d-%d" % tuple(address)
    return dashed_text(_ipv6_text(address))


def dashed_text(text: str) -> bytes:
    """The same from the address as written (CoreDNS endpointHostname)."""
    if "." in text:
        return text.replace(".", "-").encode()
    label = text.replace(":", "-")
    return (label + "0" if label.endswith("-") else label).encode()


def _ipv6_text(address: bytes) -> str:
    from ipaddress import IPv6Address  # noqa: PLC0415 - most clusters have no IPv6

    return str(IPv6Address(address))


def _matches(found: Port, port: bytes, protocol: bytes) -> bool:
    return (not port or found.name == port) and (not protocol or found.protocol == protocol)
