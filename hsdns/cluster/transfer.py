"""All records of a cluster zone, for zone transfers.

Path: plugins/kubernetes.py gives it to plugins/transfer.py, which sends it in batches.
Rule 1: what is transferred is one moment's state: the values are held on to when the transfer begins, and a value never
        changes, so however slowly a client dependencies, it gets the zone that the SOA record's serial names.
Rule 2: what exists for a question alone is not there: pods, addresses as names of pods, `dns-version`.
Source: CoreDNS 1.14.7 plugin/kubernetes xfr.go: order, weights and the TTL of glue are its.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.cluster import schema
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.question import SVC, Asked
from hsdns.cluster.value import EXTERNAL_NAME, Key, PackedSlice, Port, ServiceValue
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import srv

CLUSTER_IP_WEIGHT: Final = 100
_REVERSE: Final = (Name.from_text("in-addr.arpa."), Name.from_text("ip6.arpa."))


def has_records(zone: Name) -> bool:
    """Whether a zone has the names of Services; those of addresses are answered, but not listed."""
    return not any(zone.is_at_or_below(reverse) for reverse in _REVERSE)


def zone_records(answers: ClusterAnswers, zone: Name) -> Iterator[RR]:
    """The records of a forward zone between its two SOA records; what it holds is read now, whenever they are taken."""
    servers, glue = answers.nameserver.records(zone)
    values = sorted(
        (
            (key, value)
            for key, value in answers.values(zone).items()
            if value.kind is not None and answers.is_exposed(key[0], None)
        ),
        key=lambda item: (item[0][1], item[0][0]),
    )
    head = (*servers, *(record._replace(ttl=0) for record in glue))
    return _walk(head, values, zone, answers.ttl)


def _walk(
    head: Sequence[RR], values: Sequence[tuple[Key, ServiceValue]], zone: Name, ttl: int
) -> Iterator[RR]:
    yield from head
    for (namespace, name), value in values:
        own = schema.target_name(None, Asked(SVC, namespace, name), zone)
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
    """`_PORT._PROTOCOL` and the Service's name; None for a port without a name."""
    if not port.name:
        return None
    protocol = _below(own, b"_" + port.protocol)
    return None if protocol is None else _below(protocol, b"_" + port.name)


def _below(name: Name, label: bytes) -> Name | None:
    """A name one label longer; None where there is no room for it."""
    wire = bytes((len(label),)) + label + name.lower if 0 < len(label) <= 63 else b""
    return Name(wire) if 0 < len(wire) <= MAX_NAME_LEN else None
