"""All records of a cluster zone, for zone transfers.

Path: the kubernetes plugin passes them to plugins/transfer.py, which sends them in batches.
Rule 1: a transfer has the state of one moment.  The values are collected when it begins and never change, so even a
        slow client gets the zone with the serial of the SOA record.
Rule 2: names that are answered but not listed are not transferred: pods, addresses as names of pods, `dns-version`.
Source: CoreDNS 1.14.7 plugin/kubernetes xfr.go for the order, the weights and the TTL of glue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop
from typing import Final

from hsdns.cluster import schema
from hsdns.cluster.address import REVERSE_ZONES
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.value import EXTERNAL_NAME, PackedSlice, Port, ServiceValue
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import srv

CLUSTER_IP_WEIGHT: Final = 100


def has_records(zone: Name) -> bool:
    """Whether a zone can be transferred: reverse zones are answered, but not listed."""
    return not any(zone.is_at_or_below(reverse) for reverse in REVERSE_ZONES)


def zone_records(answers: ClusterAnswers, zone: Name) -> Iterator[RR]:
    """The records of a forward zone without its two SOA records; the values are taken at the call."""
    servers, glue = answers.nameserver.records(zone)
    found = list(answers.lookup.values(zone).items())
    exposed = {
        namespace
        for namespace in {key[0] for key, _ in found}
        if answers.lookup.is_exposed(namespace, None)
    }
    values = {
        (name, namespace): value
        for (namespace, name), value in found
        if value.kind is not None and namespace in exposed
    }
    head = (*servers, *(record._replace(ttl=0) for record in glue))
    return _walk(head, values, zone, answers.ttl)


def _walk(
    head: Sequence[RR], values: Mapping[tuple[bytes, bytes], ServiceValue], zone: Name, ttl: int
) -> Iterator[RR]:
    """The records in order of names; a heap, because sorting all of them before the first message takes too long."""
    yield from head
    names = list(values)
    heapify(names)
    while names:
        name, namespace = heappop(names)
        value = values[name, namespace]
        own = schema.target_name(None, ParsedName(SVC, namespace, name), zone)
        if own is None:  # over 255 octets
            continue
        if value.kind == EXTERNAL_NAME:
            if value.external_name is not None:
                yield RR(own, RRType.CNAME, ttl, value.external_name.lower)
        elif value.cluster_ips:
            yield from _with_address(own, value, ttl)
        else:
            yield from _with_endpoints(own, value, ttl)


def _with_address(own: Name, value: ServiceValue, ttl: int) -> Iterator[RR]:
    for address in value.cluster_ips:
        yield RR(own, schema.address_type(address), ttl, address)
    for port in value.ports:
        rdata = srv(0, CLUSTER_IP_WEIGHT, port.number & 0xFFFF, own)
        yield RR(own, RRType.SRV, ttl, rdata)
        owner = _port_name(port, own)
        if owner is not None:
            yield RR(owner, RRType.SRV, ttl, rdata)


def _with_endpoints(own: Name, value: ServiceValue, ttl: int) -> Iterator[RR]:
    counts: dict[str, int] = {}  # addresses of each slice, of both families
    for part in value.slices:
        counts[part.name] = counts.get(part.name, 0) + part.host_count
    for part in value.slices:
        weight = max(1, 100 // counts[part.name]) if counts[part.name] else 1
        yield from _part(own, part, weight, ttl)


def _part(own: Name, part: PackedSlice, weight: int, ttl: int) -> Iterator[RR]:
    for index in range(part.host_count):
        host = part.host(index)
        target = _below(own, part.label(index))
        if isinstance(host, Name) or target is None:
            continue
        yield RR(own, schema.address_type(host), ttl, host)
        yield RR(target, schema.address_type(host), ttl, host)
        for port in part.ports:
            owner = _port_name(port, own)
            if owner is not None:
                rdata = srv(0, weight, port.number & 0xFFFF, target)
                yield RR(owner, RRType.SRV, ttl, rdata)


def _port_name(port: Port, own: Name) -> Name | None:
    """`_PORT._PROTOCOL` and the name of the Service; None for a port without a name."""
    if not port.name:
        return None
    protocol = _below(own, b"_" + port.protocol)
    return None if protocol is None else _below(protocol, b"_" + port.name)


def _below(name: Name, label: bytes) -> Name | None:
    """A name with one more label; None if it is too long."""
    wire = bytes((len(label),)) + label + name.lower if 0 < len(label) <= 63 else b""
    return Name(wire) if 0 < len(wire) <= MAX_NAME_LEN else None
