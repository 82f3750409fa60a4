"""Packs API objects into values, without what DNS cannot represent, and finds the labels below a Service.

Path: services.py calls it for every event; fastpath's ClusterNames gets the labels.
Rule 1: no content of an object raises an exception.  The usable parts are packed; every other part is reported to
        `reject` with a reason and a sentence.
Rule 2: every label that schema.py finds below a Service is listed, and the answer table answers NXDOMAIN for all
        others.  Others may be listed too: the labels of an ExternalName's slices, for example, have no records, so the
        table leaves them to the chain.
Rule 3: a label is listed once for each slice that has it, so that an event is compared only with the last state of its
        slice.
Rule 4: a label is in wire form; a port is listed as PORT PROTOCOL, two labels in one, without underscores.
Rule 5: compiled code (native/src/slice_change.rs) finds the same changes as change_in_python(), in another order.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/{service,endpoint}.go.

Invalid objects: each fault is logged once, counted at each reading, and forgotten when the object is valid again:
Rule 1: an object that stays invalid costs one log line for each reason, however often it is updated.  Each time that
        something is skipped is counted.
Rule 2: at most MOST objects are remembered; the faults of further ones are only counted, which is logged once.
Rule 3: a valid object costs one check of a flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hsdns.cluster.address import dashed, dashed_text, pack_address, pack_ipv4, read_address
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
from hsdns.cluster.read_object import PortTexts, ReadService, ReadSlice
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    NO_PORTS,
    Key,
    PackedSlice,
    Port,
    ServiceValue,
    join_labels,
)
from hsdns.fastpath import slice_change
from hsdns.metrics import Counter, Registry
from hsdns.wire import printable
from hsdns.wire.name import MAX_LABEL_LEN, Name

if TYPE_CHECKING:
    from hsdns.cluster.store import StoreSettings

_WIDTHS: Final = {"IPv4": 4, "IPv6": 16}  # octets of an address by addressType
# Labels and lists of ports repeat all over a cluster (web-0, http/TCP); at most this many different ones are shared.
MOST_SHARED: Final = 16384
MOST: Final = 10_000  # objects whose faults are remembered
LONGEST: Final = 80  # characters of an object's text that a sentence quotes

# A name or namespace is not a DNS label, a slice has no usable Service label, a hostname, address or externalName is
# invalid, or the object could not be decoded as its kind.
Reason = Literal["name", "owner", "hostname", "address", "external_name", "form"]
ObjectKey = tuple[str, str, str]  # kind, namespace, name
Reject = Callable[[Reason, str], None]


def pack_key(meta: ObjectMeta, name: str | None = None) -> Key | None:
    """Namespace and name as labels; None if one of them is not a DNS label."""
    namespace, own = pack_label(meta.namespace), pack_label(meta.name if name is None else name)
    return (namespace, own) if namespace is not None and own is not None else None


def key_of(found: Service | ReadService | ServiceImport) -> Key | None:
    """Namespace and name of a Service as labels; None if one of them is not a DNS label."""
    return found.reading.key if isinstance(found, ReadService) else pack_key(found.metadata)


def owner_of(found: EndpointSlice | ReadSlice) -> Key | None:
    """The Service that a slice names in its label; None if it names none."""
    return found.reading.owner if isinstance(found, ReadSlice) else slice_owner(found.metadata)


def slice_owner(meta: ObjectMeta) -> Key | None:
    """The Service that a slice names in its label; None if it names none."""
    owner = (meta.labels or {}).get(SERVICE_NAME_LABEL)
    return pack_key(meta, owner) if owner else None


def import_owner(meta: ObjectMeta) -> Key | None:
    """The ServiceImport that a slice names in its label; None if it names none."""
    owner = (meta.labels or {}).get(IMPORT_NAME_LABEL)
    return pack_key(meta, owner) if owner else None


def source_cluster(meta: ObjectMeta) -> bytes:
    """The cluster that a ServiceImport's slice names in its label; b"" if it names none."""
    return pack_label((meta.labels or {}).get(SOURCE_CLUSTER_LABEL, "")) or b""


@lru_cache(maxsize=MOST_SHARED)
def pack_label(text: str) -> bytes | None:
    """A string as a lower-case label; None if empty or over 63 octets (RFC 1035).  Equal labels share one object."""
    label = text.encode("utf-8", "surrogatepass").lower()
    return label if 0 < len(label) <= MAX_LABEL_LEN else None


def pack_service(
    service: Service | ReadService, slices: tuple[PackedSlice, ...], reject: Reject
) -> ServiceValue:
    """The value of a Service; its kind is None if DNS cannot represent it (an ExternalName that is not a name)."""
    if isinstance(service, ReadService):
        usual = service.reading.pack()
        if usual is not None:
            is_headless, addresses, port_texts, has_selector = usual
            kind = HEADLESS if is_headless else CLUSTER_IP
            version, ports = service.resource_version, shared_ports(port_texts)
            return ServiceValue(kind, version, addresses, ports, None, slices, has_selector)
        service = service.whole
    meta, spec = service.metadata, service.spec
    ports = _ports(spec.ports or ())
    has_selector = bool(spec.selector)
    external = _external(service)
    addresses = ()
    target = None
    if spec.type == "ExternalName":
        target = pack_target(spec.external_name or "")
        if target is None:
            reject(
                "external_name",
                f"externalName {quoted(spec.external_name or '')} is not a domain name; the Service is skipped",
            )
            return ServiceValue(None, meta.resource_version, slices=slices)
        kind = EXTERNAL_NAME
    elif (texts := spec.cluster_ips or [spec.cluster_ip or ""])[0] == "None":
        kind = HEADLESS
    else:
        kind = CLUSTER_IP
        addresses = _addresses(texts, "clusterIP", reject)
    return ServiceValue(
        kind, meta.resource_version, addresses, ports, target, slices, has_selector, external
    )


def pack_import(
    found: ServiceImport, slices: tuple[PackedSlice, ...], reject: Reject
) -> ServiceValue:
    """The value of a ServiceImport; unlike a Service, one without ports has no names."""
    spec, version = found.spec, found.metadata.resource_version
    ports = _ports(spec.ports or ()) if spec.ports else ()
    if spec.type == "Headless":
        return ServiceValue(HEADLESS, version, (), ports, None, slices)
    addresses = _addresses(spec.ips or (), "IP", reject)
    return ServiceValue(CLUSTER_IP, version, addresses, ports, None, slices)


def _addresses(texts: Iterable[str], what: str, reject: Reject) -> tuple[bytes, ...]:
    addresses = []
    for text in texts:
        packed = pack_address(text)
        if packed is not None:
            addresses.append(packed)
        elif text:
            reject("address", f"{what} {quoted(text)} is not an IP address; it is skipped")
    return tuple(addresses)


def _external(service: Service) -> tuple[bytes | Name, ...]:
    """The external IPs of a Service, then the addresses or names of its load balancers.

    Anything else is skipped and not reported, since only k8s_external uses them.
    """
    texts = list(service.spec.external_ips or ())
    balancer = service.status.load_balancer if service.status is not None else None
    if balancer is not None:
        texts += [each.ip or each.hostname or "" for each in balancer.ingress or ()]
    found = (pack_address(text) or pack_target(text) for text in texts)
    return tuple(each for each in found if each is not None)


def pack_target(text: str) -> Name | None:
    """An external name in lower case; None for an address and for text that is not a name."""
    if not text or pack_address(text) is not None:
        return None
    try:
        name = Name.from_text(text)
    except ValueError:
        return None
    return name.lowered() if name.labels else None


def pack_slice(
    found: EndpointSlice | ReadSlice, settings: StoreSettings, reject: Reject, cluster: bytes = b""
) -> tuple[PackedSlice, ...]:
    """The ready endpoints of a slice: a part for each address width, separate ones for non-canonical spellings.

    If endpoints that are not ready are counted, and there are no others, the result is one part without addresses.
    """
    if isinstance(found, ReadSlice):
        usual = found.reading.pack(settings.endpoint_pod_names, settings.zonal)
        if usual is not None:
            width, octets, labels, texts, zones, unready = usual
            part = PackedSlice(
                found.key[1],
                found.resource_version,
                width,
                octets,
                labels,
                shared_ports(texts),
                topology_zones=zones,
                cluster=cluster,
                not_ready=unready if settings.not_ready else 0,
            )
            return (part,)
        found = found.whole
    zone_of = _topology_zones(found) if settings.zonal else {}
    # By width, 0 for names, negative for addresses that were not written in canonical form.
    groups: dict[int, _Group] = {}
    last, group = 1, _Group()  # of no width
    not_ready = 0
    for endpoint in found.endpoints or ():
        if endpoint.conditions is not None and endpoint.conditions.ready is False:
            not_ready += len(endpoint.addresses or ())
            continue
        label = None
        if endpoint.hostname:
            label = pack_label(endpoint.hostname)
            if label is None:
                reject(
                    "hostname",
                    f"hostname {quoted(endpoint.hostname)} is not a DNS label; the dashed address is used instead",
                )
        elif settings.endpoint_pod_names and endpoint.target_ref is not None:
            label = pack_label(endpoint.target_ref.name or "")
        for text in endpoint.addresses or ():
            ipv4 = pack_ipv4(text)
            read = (4, ipv4, None) if ipv4 is not None else _read_host(text, found.address_type)
            if read is None:
                reject("address", f"{quoted(text)} is not an IP address; it is skipped")
                continue
            width, host, written = read
            if width != last:
                last, group = width, groups.setdefault(width, _Group())
            group.hosts.append(host)
            group.labels.append(written if label is None else label)
            if settings.zonal:
                group.zones.append(zone_of.get(text, b""))
    if settings.not_ready and not_ready and not groups:
        groups[_WIDTHS.get(found.address_type, 0)] = _Group()
    ports = _ports(found.ports or ())
    parts = [
        PackedSlice(
            found.metadata.name,
            found.resource_version,
            abs(width),
            b"".join(group.hosts) if width else b"",  # type: ignore[arg-type]  # addresses
            join_labels(group.labels),
            ports,
            () if width else tuple(group.hosts),  # type: ignore[arg-type]  # names
            reversible=width >= 0,
            topology_zones=tuple(group.zones) if any(group.zones) else None,
            cluster=cluster,
        )
        for width, group in sorted(groups.items(), key=lambda item: not item[0])
    ]
    if settings.not_ready and not_ready:
        parts[0] = parts[0]._replace(not_ready=not_ready)
    return tuple(parts)


class _Group:
    """The addresses or names of one part, with their labels and topology zones."""

    __slots__ = ("hosts", "labels", "zones")

    def __init__(self) -> None:
        self.hosts: list[bytes | Name] = []
        self.labels: list[bytes | None] = []
        self.zones: list[bytes] = []


def _read_host(text: str, address_type: str) -> tuple[int, bytes | Name, bytes | None] | None:
    """The width of the group of an IPv6 address or a name, that itself, and its label if the text makes it."""
    read = read_address(text)
    if read is not None:
        host, is_canonical = read
        if is_canonical:
            return len(host), host, None
        # CoreDNS makes the label from the text as written, which matters if that is not the canonical form.
        return -len(host), host, pack_label(dashed_text(text).decode())
    target = pack_target(text) if address_type == "FQDN" else None
    return None if target is None else (0, target, pack_label(text.replace(".", "-")))


def _topology_zones(found: EndpointSlice) -> dict[str, bytes]:
    """Topology zones by address as written; for an address that occurs twice the last zone counts."""
    return {
        text: (endpoint.zone or "").lower().encode("utf-8", "surrogatepass")
        for endpoint in found.endpoints or ()
        if endpoint.zone is not None
        and (endpoint.conditions is None or endpoint.conditions.ready is not False)
        for text in endpoint.addresses or ()
    }


def _ports(ports: Iterable[ServicePort | EndpointPort]) -> tuple[Port, ...]:
    return shared_ports(tuple((port.name, port.protocol, port.port) for port in ports))


@lru_cache(maxsize=MOST_SHARED)
def shared_ports(ports: tuple[PortTexts, ...]) -> tuple[Port, ...]:
    """Pack ports; Services and slices with equal ports share one object."""
    return (
        tuple(
            Port(
                (name or "").lower().encode("utf-8", "surrogatepass"),
                (protocol or "").lower().encode("utf-8", "surrogatepass"),
                NO_PORT if number is None else number,
            )
            for name, protocol, number in ports
        )
        or NO_PORTS
    )


# The labels below a Service

# Names for a topology zone are below it, and have three labels or more.
TOPOLOGY: Final = b"\5_zone"
_PIN: Final = b"\3pin" + TOPOLOGY


class SliceChange(NamedTuple):
    """What the replacement of one slice's parts changes, each without repetitions and in any order.

    `gained` and `lost` are labels below the Service in wire form, `gone` and `come` addresses that PTR queries find.
    """

    gained: Sequence[bytes]
    lost: Sequence[bytes]
    gone: Sequence[bytes]
    come: Sequence[bytes]


def change_of(old: Sequence[PackedSlice], new: Sequence[PackedSlice]) -> SliceChange:
    """What changes if the parts of a slice are replaced."""
    return (
        change_in_python(old, new) if slice_change is None else SliceChange(*slice_change(old, new))
    )


def change_in_python(old: Sequence[PackedSlice], new: Sequence[PackedSlice]) -> SliceChange:
    """The same as change_of(), without compiled code."""
    had, has = _listed(old), _listed(new)

    def missing(here: _Listed, there: _Listed) -> list[bytes]:
        found = [_wire(dashed(address)) for address in there.addresses - here.addresses]
        return [*found, *(there.labels - here.labels)]

    gone, come = had.reversible - has.reversible, has.reversible - had.reversible
    return SliceChange(missing(had, has), missing(has, had), list(gone), list(come))


class _Listed(NamedTuple):
    """What is found of one slice: labels in wire form, addresses whose labels are their dashed form, reverse names."""

    labels: set[bytes]
    addresses: set[bytes]
    reversible: set[bytes]


def _listed(parts: Sequence[PackedSlice]) -> _Listed:
    addresses: set[bytes] = set()
    # One set for both, while no part differs: an event is waited for.
    is_usual = all(part.labels is None and part.reversible for part in parts)
    found = _Listed(set(), addresses, addresses if is_usual else set())
    for part in parts:
        found.labels.update(_port_labels(part.ports))
        found.labels.update(_zone_labels(part.topology_zones or ()))
        separate = part.separate
        if part.reversible:
            found.reversible.update(separate)
        if part.labels is None:
            if not is_usual:
                addresses.update(separate)
            continue
        for host, label in zip(part.hosts, part.own_labels, strict=True):
            if label:
                found.labels.add(_wire(label))
            elif isinstance(host, bytes):
                addresses.add(host)
    return found


def own_labels(value: ServiceValue, zonal: bool) -> set[bytes]:
    """The labels below a Service that do not come from its slices."""
    found = set(_port_labels(value.ports))
    if zonal and value.kind == HEADLESS:
        found.add(TOPOLOGY)
    return found


@lru_cache(maxsize=MOST_SHARED)
def _port_labels(ports: tuple[Port, ...]) -> list[bytes]:
    """The ports that can be queried by name: those with a name and a protocol."""
    return [
        _wire(port.name) + _wire(port.protocol)
        for port in ports
        if 0 < len(port.name) <= MAX_LABEL_LEN and 0 < len(port.protocol) <= MAX_LABEL_LEN
    ]


def _zone_labels(topology_zones: Iterable[bytes]) -> Iterator[bytes]:
    """The labels to the left of a Service that select topology zones; a zone may have dots."""
    for labels in {zone: zone.split(b".") for zone in topology_zones}.values():
        if all(0 < len(label) <= MAX_LABEL_LEN for label in labels):
            yield b"".join(map(_wire, labels)) + _PIN


def _wire(label: bytes) -> bytes:
    return bytes((len(label),)) + label


class RejectedObjects:
    """The faults of objects by kind, namespace, name and reason; `warn` takes a sentence for the operator."""

    def __init__(
        self, warn: Callable[[str], None], metrics: Registry | None = None, most: int = MOST
    ) -> None:
        self.is_pending = False  # whether finish() has anything to do
        self._warn = warn
        self._most = most
        self._counter = None if metrics is None else _counter_in(metrics)
        self._found: dict[Reason, str] = {}  # in the object that is being read
        self._known: dict[ObjectKey, frozenset[Reason]] = {}
        self._is_full = False

    def add(self, reason: Reason, sentence: str) -> None:
        """Record a fault of the object that is being read; finish() names that object."""
        self._found.setdefault(reason, sentence)
        self.is_pending = True

    def finish(self, kind: str, key: tuple[str, str], gone: bool) -> None:
        """Finish an object that was read: count its faults, log the new ones and forget the corrected ones."""
        if not self.is_pending:
            return
        if gone:
            self._found.clear()
            self._known.pop((kind, *key), None)
            self.is_pending = bool(self._known)
        else:
            self._settle(kind, *key)

    def reject(self, kind: str, namespace: str, name: str, reason: Reason, sentence: str) -> None:
        """Report an object that a source could not deliver; it is valid again once the store reads it."""
        self._found.clear()
        self.add(reason, sentence)
        self._settle(kind, namespace, name)

    def _settle(self, kind: str, namespace: str, name: str) -> None:
        found = self._found
        key = (kind, namespace, name)
        known = self._known.get(key, frozenset())
        if self._counter is not None:
            for reason in found:
                self._counter.inc((kind, reason))
        new = [reason for reason in found if reason not in known]
        if found and (known or len(self._known) < self._most):
            self._known[key] = frozenset(found)
            for reason in new:
                self._warn(f"{kind} {_path(namespace, name)}: {found[reason]}")
        elif found and not self._is_full:
            self._is_full = True
            self._warn(
                f"more than {self._most} objects are invalid; further ones are counted in "
                "hsdns_kubernetes_rejected_total but not logged"
            )
        elif not found:
            self._known.pop(key, None)
        found.clear()
        self.is_pending = bool(self._known)


def quoted(text: str) -> str:
    """The beginning of an object's text, for a log line: in quotes, with unprintable characters escaped."""
    plain = printable(text[:LONGEST])
    return f'"{plain}"' if len(text) <= LONGEST else f'"{plain}..." ({len(text)} characters)'


def _counter_in(metrics: Registry) -> Counter:
    return metrics.counter("hsdns_kubernetes_rejected_total", ("kind", "reason"))


def _path(namespace: str, name: str) -> str:
    path = f"{namespace}/{name}" if namespace else name
    return quoted(path)[1:-1] if len(path) <= LONGEST else quoted(path)
