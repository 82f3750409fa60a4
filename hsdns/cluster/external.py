"""The names of Services in the zones of k8s_external: their addresses outside the cluster.

Path: plugins/k8s_external.py finds the zone and asks; the store is that of the kubernetes plugin in the same block.
Source: CoreDNS 1.14.7 plugin/kubernetes/external.go.

    NAMESPACE.zone                        exists with the namespace
    NAME.NAMESPACE.zone                   a Service with external addresses
    _PORT._PROTOCOL.NAME.NAMESPACE.zone   one of its ports; the underscores may be missing
    ENDPOINT.NAME.NAMESPACE.zone          an endpoint, with `headless` and without external addresses; else the Service

Rule 1: a Service without an external address does not exist here; with `headless`, headless ones do.
Rule 2: counters are added to `dependencies` before the store is read, as in lookup.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from hsdns.cluster.freshness import Dependencies, address_counter, service_counter
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.schema import address_type
from hsdns.cluster.value import HEADLESS, NO_PORT, Entry, Key, ServiceValue, port_matches
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import Name
from hsdns.wire.rdata import srv


class ExternalNames:
    """The names below an external zone, for the namespaces that the kubernetes block exposes."""

    def __init__(self, lookup: NameLookup, *, headless: bool) -> None:
        self._lookup = lookup
        self._services = lookup.store.services
        self._headless = headless

    def find(
        self, labels: tuple[bytes, ...], dependencies: Dependencies | None
    ) -> tuple[Iterator[Entry], ParsedName]:
        """The entries of the lower-case labels left of a zone; raise NoSuchName.  No entries mean NODATA.

        All but the first are made as they are consumed, from the state at the call.
        """
        parsed = parse(labels)
        if parsed is None or not self._lookup.is_exposed(parsed.namespace, dependencies):
            raise NoSuchName
        if not parsed.name:
            return iter(()), parsed
        if dependencies is not None:
            dependencies.add(service_counter(parsed.namespace, parsed.name))
        value = self._services.values.get((parsed.namespace, parsed.name))
        if value is None or not value.kind:
            raise NoSuchName
        entries = self._entries(value, parsed)
        first = next(entries, None)
        if first is None:
            raise NoSuchName
        return chain((first,), entries), parsed

    def pointers(
        self, address: bytes, dependencies: Dependencies | None
    ) -> list[tuple[bytes, bytes]]:
        """Namespace and name of the Services with this external address, in a fixed order."""
        if dependencies is not None:
            dependencies.add(address_counter(address))
        owners = sorted(self._services.external_ips.lookup(address))
        return [key for key in owners if self._lookup.may_point_to(key[0], dependencies)]

    def records(self, zone: Name, ttl: int, srv_ttl: int) -> Iterator[RR]:
        """All records below a zone, each once, for a zone transfer.

        The values are collected now, the records made as they are consumed.  Names of load balancers are not resolved.
        CoreDNS omits all but the first SRV record of a name, repeats others, and truncates names of load balancers.
        """
        values = sorted(
            (
                (key, value)
                for key, value in list(self._services.values.items())
                if value.kind and self._lookup.is_exposed(key[0], None)
            ),
            key=lambda item: (item[0][1], item[0][0]),
        )
        return self._walk(values, zone, ttl, srv_ttl)

    def _walk(
        self, values: Sequence[tuple[Key, ServiceValue]], zone: Name, ttl: int, srv_ttl: int
    ) -> Iterator[RR]:
        for (namespace, name), value in values:
            for left in _prefixes(value):
                parsed = parse((*left, name, namespace))
                try:
                    owner = Name.from_labels((*left, name, namespace, *zone.labels))
                except ValueError:
                    continue
                if parsed is None:
                    continue
                entries = tuple(self._entries(value, parsed))
                if len(left) < 2:
                    yield from dict.fromkeys(_host(owner, each, ttl, srv_ttl) for each in entries)
                yield from dict.fromkeys(srv_records(entries, parsed, owner, zone, srv_ttl))

    def _entries(self, value: ServiceValue, parsed: ParsedName) -> Iterator[Entry]:
        if not value.external:
            if self._headless and (value.kind == HEADLESS or parsed.endpoint):
                yield from value.entries(parsed.endpoint or None, parsed.port, parsed.protocol)
            return
        for host in value.external:
            for port in value.ports:
                if port_matches(port, parsed.port, parsed.protocol):
                    yield Entry(host, None, port.number)


def _prefixes(value: ServiceValue) -> list[tuple[bytes, ...]]:
    """The labels left of a Service in its names: none, those of endpoints, ports with protocols."""
    found: list[tuple[bytes, ...]] = [()]
    if value.external:
        ports = value.ports
    else:
        ports = tuple(dict.fromkeys(port for part in value.slices for port in part.ports))
        if value.kind == HEADLESS:
            found += [(label,) for label in value.labels]
    found += dict.fromkeys(
        (b"_" + port.name, b"_" + port.protocol) for port in ports if port.name and port.protocol
    )
    return found


def parse(labels: tuple[bytes, ...]) -> ParsedName | None:
    """Parse the labels left of the zone, at least one; None for names that cannot exist."""
    count = len(labels)
    if count == 1:
        return ParsedName(SVC, labels[0])
    if count == 2:
        return ParsedName(SVC, labels[1], labels[0])
    if count == 3:
        return ParsedName(SVC, labels[2], labels[1], endpoint=labels[0].removeprefix(b"_"))
    if count == 4:
        port, protocol = (label.removeprefix(b"_") for label in labels[:2])
        return ParsedName(SVC, labels[3], labels[2], port=port, protocol=protocol)
    return None


def srv_records(
    entries: Sequence[Entry], parsed: ParsedName, owner: Name, zone: Name, ttl: int
) -> Iterator[RR]:
    """A record for each entry with a port; the weights are those of `kubernetes`."""
    weight = max(1, 100 // len(entries)) if entries else 1
    for host, label, port, _ in entries:
        target = host if isinstance(host, Name) else target_name(label, parsed, zone)
        if port != NO_PORT and target is not None:
            yield RR(owner, RRType.SRV, ttl, srv(0, weight, port & 0xFFFF, target))


def _host(owner: Name, entry: Entry, ttl: int, alias_ttl: int) -> RR:
    if isinstance(entry.host, Name):
        return RR(owner, RRType.CNAME, alias_ttl, entry.host.lower)
    return RR(owner, address_type(entry.host), ttl, entry.host)


def target_name(label: bytes | None, parsed: ParsedName, zone: Name) -> Name | None:
    """`LABEL.NAME.NAMESPACE.ZONE` or, without a label, `NAME.NAMESPACE.ZONE`; None if it is too long."""
    labels = (
        (parsed.name, parsed.namespace) if label is None else (label, parsed.name, parsed.namespace)
    )
    try:
        return Name.from_labels((*labels, *zone.lowered().labels))
    except ValueError:
        return None
