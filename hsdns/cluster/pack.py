"""API objects to packed values, leaving out what DNS cannot say.

Path: store.py calls it for every event.
Rule 1: nothing an object holds may raise: what is usable is packed, the rest is told to `complain`, a reason and a
        sentence each.
Rule 2: an IPv4 address is read by hand; module ipaddress takes three times as long, and there is one an endpoint.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/{service,endpoint}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final

from hsdns.cluster.complaints import Reason, shown
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    SOURCE_CLUSTER_LABEL,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    Service,
    ServiceImport,
    ServicePort,
)
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    Key,
    PackedSlice,
    Port,
    ServiceValue,
    dashed_text,
)
from hsdns.wire.name import MAX_LABEL_LEN, Name

Complain = Callable[[Reason, str], None]
# Labels and lists of ports are alike all over a cluster (web-0, http/TCP); so many different ones are shared.
KEPT: Final = 16384
_OCTETS: Final = {str(value): value for value in range(256)}  # as the only spelling of each
# No ports declared: one that matches questions without port labels.
_SENTINEL = (Port(b"", b"", NO_PORT),)


def pack_key(meta: ObjectMeta, name: str | None = None) -> Key | None:
    """Namespace and name as labels; None where one of them is no label."""
    namespace, own = pack_label(meta.namespace), pack_label(meta.name if name is None else name)
    return (namespace, own) if namespace is not None and own is not None else None


def slice_owner(meta: ObjectMeta) -> Key | None:
    """The Service a slice belongs to, by its label alone; None where it has none."""
    owner = (meta.labels or {}).get(SERVICE_NAME_LABEL)
    return pack_key(meta, owner) if owner else None


def import_owner(meta: ObjectMeta) -> Key | None:
    """The ServiceImport a slice belongs to, by its label alone; None where it has none."""
    owner = (meta.labels or {}).get(IMPORT_NAME_LABEL)
    return pack_key(meta, owner) if owner else None


def source_cluster(meta: ObjectMeta) -> bytes:
    """The cluster that the endpoints of a ServiceImport's slice are in; b"" where it is not said."""
    return pack_label((meta.labels or {}).get(SOURCE_CLUSTER_LABEL, "")) or b""


@lru_cache(maxsize=KEPT)
def pack_label(text: str) -> bytes | None:
    """A string as one lower-case label; None where RFC 1035 has no room for it.  Equal ones are one object."""
    label = text.encode("utf-8", "surrogatepass").lower()
    return label if 0 < len(label) <= MAX_LABEL_LEN else None


def pack_address(text: str) -> bytes | None:
    """An address as 4 or 16 octets, IPv4-mapped ones as 4 (Go's net.IP.To4); None where it is none."""
    found = read_address(text)
    return None if found is None else found[0]


def read_address(text: str) -> tuple[bytes, bool] | None:
    """The same, and whether it was written in the usual form."""
    octets = text.split(".")
    if len(octets) == 4:
        try:
            a, b, c, d = octets  # no comprehension: that is a call of its own, for each endpoint
            return bytes((_OCTETS[a], _OCTETS[b], _OCTETS[c], _OCTETS[d])), True
        except KeyError:
            pass  # ::ffff:10.0.0.1 has three dots too
    try:
        found = IPv6Address(text)
    except ValueError:
        return None
    if found.scope_id is not None:
        return None
    mapped = found.ipv4_mapped
    return (found.packed, str(found) == text) if mapped is None else (mapped.packed, False)


def pack_service(
    service: Service, slices: tuple[PackedSlice, ...], complain: Complain
) -> ServiceValue:
    """A Service's value; its kind is None where DNS cannot show it (an ExternalName that is no name)."""
    meta, spec = service.metadata, service.spec
    ports = _ports(spec.ports or ())
    has_selector = bool(spec.selector)
    external = _external(service)
    if spec.type == "ExternalName":
        target = pack_target(spec.external_name or "")
        if target is None:
            complain(
                "external_name",
                f"externalName {shown(spec.external_name or '')} is no domain name; the Service is left out",
            )
            return ServiceValue(None, meta.resource_version, slices=slices)
        return ServiceValue(
            EXTERNAL_NAME, meta.resource_version, (), ports, target, slices, has_selector, external
        )
    texts = spec.cluster_ips or [spec.cluster_ip or ""]
    if texts[0] == "None":
        return ServiceValue(
            HEADLESS, meta.resource_version, (), ports, None, slices, has_selector, external
        )
    addresses = _addresses(texts, "clusterIP", complain)
    return ServiceValue(
        CLUSTER_IP, meta.resource_version, addresses, ports, None, slices, has_selector, external
    )


def pack_import(
    found: ServiceImport, slices: tuple[PackedSlice, ...], complain: Complain
) -> ServiceValue:
    """A ServiceImport's value; without ports it has no names, since nothing stands in for them here."""
    spec, version = found.spec, found.metadata.resource_version
    ports = _ports(spec.ports or ()) if spec.ports else ()
    if spec.type == "Headless":
        return ServiceValue(HEADLESS, version, (), ports, None, slices)
    addresses = _addresses(spec.ips or (), "IP", complain)
    return ServiceValue(CLUSTER_IP, version, addresses, ports, None, slices)


def _addresses(texts: Iterable[str], what: str, complain: Complain) -> tuple[bytes, ...]:
    addresses = []
    for text in texts:
        packed = pack_address(text)
        if packed is not None:
            addresses.append(packed)
        elif text:
            complain("address", f"{what} {shown(text)} is no address; it is left out")
    return tuple(addresses)


def _external(service: Service) -> tuple[bytes | Name, ...]:
    """Where a Service is reached from outside: its external IPs, then the addresses or names of load balancers.

    What is neither address nor name is left out without a word: `kubernetes` itself has no use for it.
    """
    texts = list(service.spec.external_ips or ())
    balancer = service.status.load_balancer if service.status is not None else None
    if balancer is not None:
        texts += [each.ip or each.hostname or "" for each in balancer.ingress or ()]
    found = (pack_address(text) or pack_target(text) for text in texts)
    return tuple(each for each in found if each is not None)


def pack_target(text: str) -> Name | None:
    """An external name in lower case; None for addresses and for what is no name."""
    if not text or pack_address(text) is not None:
        return None
    try:
        name = Name.from_text(text)
    except ValueError:
        return None
    return name.lowered() if name.labels else None


def pack_slice(
    found: EndpointSlice,
    *,
    pod_names: bool,
    complain: Complain,
    zonal: bool = False,
    cluster: bytes = b"",
) -> tuple[PackedSlice, ...]:
    """The ready endpoints of a slice: one part for each address width, and one more for unusual spellings."""
    meta = found.metadata
    ports = _ports(found.ports or ())
    zones = _topology_zones(found) if zonal else {}
    # By width, below zero where the addresses were not written in the usual form.
    groups: dict[int, _Group] = {}
    targets: list[Name] = []
    of_targets = _Group()
    for endpoint in found.endpoints or ():
        if endpoint.conditions is not None and endpoint.conditions.ready is False:
            continue
        label = None
        if endpoint.hostname:
            label = pack_label(endpoint.hostname)
            if label is None:
                complain(
                    "hostname",
                    f"hostname {shown(endpoint.hostname)} is no DNS label; the dashed address stands in",
                )
        elif pod_names and endpoint.target_ref is not None:
            label = pack_label(endpoint.target_ref.name or "")
        for text in endpoint.addresses or ():
            read = read_address(text)
            if read is None:
                target = pack_target(text) if found.address_type == "FQDN" else None
                if target is None:
                    complain("address", f"{shown(text)} is no address; it is left out")
                else:
                    targets.append(target)
                    dashed = pack_label(text.replace(".", "-")) if label is None else label
                    of_targets.add(b"", dashed, zones.get(text, b""))
                continue
            packed, usual = read
            width = len(packed) if usual else -len(packed)
            group = groups.get(width)
            if group is None:
                group = groups[width] = _Group()
            # CoreDNS makes the label from the text as written, which counts where that is not the usual form.
            if label is None and not usual:
                own: bytes | None = pack_label(dashed_text(text).decode())
            else:
                own = label
            group.add(packed, own, zones.get(text, b""))
    parts = [
        PackedSlice(
            meta.name,
            meta.resource_version,
            abs(width),
            b"".join(group.addresses),
            tuple(group.labels) if any(label is not None for label in group.labels) else None,
            ports,
            reversible=width > 0,
            topology_zones=tuple(group.zones) if any(group.zones) else None,
            cluster=cluster,
        )
        for width, group in groups.items()
    ]
    if targets:
        parts.append(
            PackedSlice(
                meta.name,
                meta.resource_version,
                0,
                b"",
                tuple(of_targets.labels),
                ports,
                tuple(targets),
                topology_zones=tuple(of_targets.zones) if any(of_targets.zones) else None,
                cluster=cluster,
            )
        )
    return tuple(parts)


class _Group:
    """Addresses of one part, with their labels and topology zones."""

    __slots__ = ("addresses", "labels", "zones")

    def __init__(self) -> None:
        self.addresses: list[bytes] = []
        self.labels: list[bytes | None] = []
        self.zones: list[bytes] = []

    def add(self, address: bytes, label: bytes | None, zone: bytes) -> None:
        """Take the next address."""
        self.addresses.append(address)
        self.labels.append(label)
        self.zones.append(zone)


def _topology_zones(found: EndpointSlice) -> dict[str, bytes]:
    """Topology zones by address as written: of an address that stands in a slice twice the last one counts."""
    return {
        text: (endpoint.zone or "").lower().encode("utf-8", "surrogatepass")
        for endpoint in found.endpoints or ()
        if endpoint.zone is not None
        and (endpoint.conditions is None or endpoint.conditions.ready is not False)
        for text in endpoint.addresses or ()
    }


def _ports(ports: Iterable[ServicePort | EndpointPort]) -> tuple[Port, ...]:
    return _one_of_each(tuple((port.name, port.protocol, port.port) for port in ports))


@lru_cache(maxsize=KEPT)
def _one_of_each(
    ports: tuple[tuple[str | None, str | None, int | None], ...],
) -> tuple[Port, ...]:
    """Packed ports; the same object for all Services and slices that have the same."""
    return (
        tuple(
            Port(
                (name or "").lower().encode("utf-8", "surrogatepass"),
                (protocol or "").lower().encode("utf-8", "surrogatepass"),
                NO_PORT if number is None else number,
            )
            for name, protocol, number in ports
        )
        or _SENTINEL
    )
