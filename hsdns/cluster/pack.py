"""API objects to packed values, leaving out what DNS cannot say.

Path: store.py calls it for every event.
Rule 1: nothing an object holds may raise: what is usable is packed, the rest is told to `complain`, a sentence each.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/{service,endpoint}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    Service,
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

Complain = Callable[[str], None]
# Labels and lists of ports are alike all over a cluster (web-0, http/TCP); so many different ones are shared.
KEPT: Final = 16384
_SENTINEL = (
    Port(b"", b"", NO_PORT),
)  # no ports declared: one that matches questions without port labels


def pack_key(meta: ObjectMeta, name: str | None = None) -> Key | None:
    """Namespace and name as labels; None where one of them is no label."""
    namespace, own = pack_label(meta.namespace), pack_label(meta.name if name is None else name)
    return (namespace, own) if namespace is not None and own is not None else None


def slice_owner(meta: ObjectMeta) -> Key | None:
    """The Service a slice belongs to, by its label alone; None where it has none."""
    owner = (meta.labels or {}).get(SERVICE_NAME_LABEL)
    return pack_key(meta, owner) if owner else None


@lru_cache(maxsize=KEPT)
def pack_label(text: str) -> bytes | None:
    """A string as one lower-case label; None where RFC 1035 has no room for it.  Equal ones are one object."""
    label = text.encode("utf-8", "surrogatepass").lower()
    return label if 0 < len(label) <= MAX_LABEL_LEN else None


def pack_address(text: str) -> bytes | None:
    """An address as 4 or 16 octets, IPv4-mapped ones as 4 (Go's net.IP.To4); None where it is none."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv4Address):
        return found.packed
    if found.scope_id is not None:
        return None
    return found.ipv4_mapped.packed if found.ipv4_mapped is not None else found.packed


def pack_service(
    service: Service, slices: tuple[PackedSlice, ...], complain: Complain
) -> ServiceValue:
    """A Service's value; its kind is None where DNS cannot show it (an ExternalName that is no name)."""
    meta, spec = service.metadata, service.spec
    ports = _ports(spec.ports or ())
    where = f"Service {meta.namespace}/{meta.name}"
    if spec.type == "ExternalName":
        target = pack_target(spec.external_name or "")
        if target is None:
            complain(
                f'{where}: externalName "{spec.external_name or ""}" is no domain name; the Service is left out'
            )
            return ServiceValue(None, meta.resource_version, slices=slices)
        return ServiceValue(EXTERNAL_NAME, meta.resource_version, (), ports, target, slices)
    texts = spec.cluster_ips or [spec.cluster_ip or ""]
    if texts[0] == "None":
        return ServiceValue(HEADLESS, meta.resource_version, (), ports, None, slices)
    addresses = []
    for text in texts:
        packed = pack_address(text)
        if packed is not None:
            addresses.append(packed)
        elif text:
            complain(f'{where}: clusterIP "{text}" is no address; it is left out')
    return ServiceValue(CLUSTER_IP, meta.resource_version, tuple(addresses), ports, None, slices)


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
    found: EndpointSlice, *, pod_names: bool, complain: Complain
) -> tuple[PackedSlice, ...]:
    """The ready endpoints of a slice: one part for each address width, and one more for unusual spellings."""
    meta = found.metadata
    where = f"EndpointSlice {meta.namespace}/{meta.name}"
    ports = _ports(found.ports or ())
    # By width and whether the address was written in the usual form.
    addresses: dict[tuple[int, bool], list[bytes]] = {}
    labels: dict[tuple[int, bool], list[bytes | None]] = {}
    targets: list[Name] = []
    target_labels: list[bytes | None] = []
    for endpoint in found.endpoints or ():
        if endpoint.conditions is not None and endpoint.conditions.ready is False:
            continue
        label = None
        if endpoint.hostname:
            label = pack_label(endpoint.hostname)
            if label is None:
                complain(
                    f'{where}: hostname "{endpoint.hostname[:80]}" is no DNS label; the dashed address stands in'
                )
        elif pod_names and endpoint.target_ref is not None:
            label = pack_label(endpoint.target_ref.name or "")
        for text in endpoint.addresses or ():
            packed = pack_address(text)
            if packed is None:
                target = pack_target(text) if found.address_type == "FQDN" else None
                if target is None:
                    complain(f'{where}: "{text[:80]}" is no address; it is left out')
                else:
                    targets.append(target)
                    target_labels.append(label)
                continue
            group = len(packed), _is_canonical(text, packed)
            addresses.setdefault(group, []).append(packed)
            # CoreDNS makes the label from the text as written, which counts where that is not the usual form.
            written = (
                label if label is not None or group[1] else pack_label(dashed_text(text).decode())
            )
            labels.setdefault(group, []).append(written)
    parts = [
        PackedSlice(
            meta.name,
            meta.resource_version,
            width,
            b"".join(packed_addresses),
            tuple(labels[width, usual])
            if any(label is not None for label in labels[width, usual])
            else None,
            ports,
            reversible=usual,
        )
        for (width, usual), packed_addresses in addresses.items()
    ]
    if targets:
        parts.append(
            PackedSlice(
                meta.name,
                meta.resource_version,
                0,
                b"",
                tuple(target_labels),
                ports,
                tuple(targets),
            )
        )
    return tuple(parts)


def _is_canonical(text: str, packed: bytes) -> bool:
    if len(packed) == 4:
        return ":" not in text
    return str(IPv6Address(packed)) == text


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
