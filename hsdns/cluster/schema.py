"""The records of a Service, computed from its value as the Kubernetes DNS specification 1.1.0 and CoreDNS define them.

Path: lookup.py and answer.py call it for a query; the records are cached in the value and dropped with it.
Rule 1: records are computed from one value, so a reply shows one state of a Service.
Rule 2: only names that the Service itself defines are cached, so what a value keeps is bounded by its own size.
Rule 3: owner names are lower case; name compression against the question restores the client's case.
"""

from __future__ import annotations

from hsdns.cluster.question import SVC, ParsedName
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    Entry,
    Node,
    ServiceValue,
    SliceKey,
)
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import srv


def find(value: ServiceValue, parsed: ParsedName, qname: Name, ttl: int) -> Node | None:
    """The node of a name; None if the name does not exist (CoreDNS findServices).

    A headless Service without ready endpoints does not exist (k8s-dns section 2.4.1 as CoreDNS serves it).
    """
    node = value.nodes.get(qname.lower)
    if node is not None:
        return node
    if value.kind is None:
        return None
    if value.kind == EXTERNAL_NAME:
        is_plain = not (parsed.endpoint or parsed.port or parsed.protocol or parsed.topology_zone)
        if not is_plain or value.external_name is None:
            return None
        node = Node((), (), 1, value.external_name, (value.external_name,))
    else:
        found = _make(value, parsed, qname.lowered(), ttl)
        if found is None:
            return None
        node = found
        if parsed.topology_zone and not value.has_topology_zone(parsed.topology_zone):
            return node  # such a name exists for every text that a client makes up
    value.nodes[qname.lower] = node
    return node


def _make(value: ServiceValue, parsed: ParsedName, owner: Name, ttl: int) -> Node | None:
    if parsed.topology_zone and value.kind != HEADLESS:
        return None  # a ClusterIP does not belong to a topology zone
    if parsed.endpoint or parsed.topology_zone:
        found = [entry.host for entry in _entries(value, parsed)]
        count = len(found)
    else:
        found, count = value.hosts(parsed.port, parsed.protocol)
    first = found[0] if found else None
    if not count and not parsed.topology_zone and not _port_matches(value, parsed):
        return None
    a, aaaa, targets = [], [], []
    for host in dict.fromkeys(found):
        if isinstance(host, Name):
            targets.append(host)
        elif len(host) == 4:
            a.append(RR(owner, RRType.A, ttl, host))
        else:
            aaaa.append(RR(owner, RRType.AAAA, ttl, host))
    return Node(tuple(a), tuple(aaaa), count, first, tuple(targets))


def _entries(value: ServiceValue, parsed: ParsedName) -> list[Entry]:
    """The entries that match a question; with `prefer`, all of them if the topology zone has none."""
    if parsed.topology_zone:
        found = list(value.entries_in(parsed.topology_zone))
        if found or not parsed.prefers:
            return found
    endpoint = parsed.endpoint or None
    return list(value.entries(endpoint, parsed.port, parsed.protocol, parsed.cluster))


def _port_matches(value: ServiceValue, parsed: ParsedName) -> bool:
    """Whether a Service without a usable ClusterIP exists because one of its ports matches."""
    return (
        not parsed.endpoint
        and not value.cluster_ips
        and value.kind == CLUSTER_IP
        and any(
            (not parsed.port or port.name == parsed.port)
            and (not parsed.protocol or port.protocol == parsed.protocol)
            for port in value.ports
        )
    )


def srv_records(
    value: ServiceValue, node: Node, parsed: ParsedName, qname: Name, zone: Name, ttl: int
) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
    """The SRV records of an existing name and the addresses of their targets.

    The weight is floor(100 / entries), at least 1, where the entries are all (address, port) pairs, including
    duplicates and pairs without a port number (CoreDNS plugin/backend_lookup.go).
    """
    if node.srv is None:
        node.srv = _make_srv(value, parsed, qname.lowered(), zone, ttl)
    return node.srv


def _make_srv(
    value: ServiceValue, parsed: ParsedName, owner: Name, zone: Name, ttl: int
) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
    entries = [entry for entry in _entries(value, parsed) if isinstance(entry.host, bytes)]
    weight = max(1, 100 // len(entries)) if entries else 1
    answer: dict[tuple[Name, int], RR] = {}
    additional: dict[tuple[Name, bytes], RR] = {}
    targets: dict[tuple[bytes | None, bytes], Name | None] = {}
    for host, label, port, cluster in entries:
        assert isinstance(host, bytes)
        if port == NO_PORT:
            continue
        if (label, cluster) not in targets:
            targets[label, cluster] = target_name(label, parsed, zone, cluster)
        target = targets[label, cluster]
        if target is None:  # the name would be over 255 octets
            continue
        if (target, port) not in answer:
            answer[target, port] = RR(owner, RRType.SRV, ttl, srv(0, weight, port & 0xFFFF, target))
        if (target, host) not in additional:
            additional[target, host] = RR(target, address_type(host), ttl, host)
    return tuple(answer.values()), tuple(additional.values())


def target_name(
    label: bytes | None, parsed: ParsedName, zone: Name, cluster: bytes = b""
) -> Name | None:
    """`LABEL.NAME.NAMESPACE.svc.ZONE` or, without a label, `NAME.NAMESPACE.svc.ZONE`; None if it is too long.

    The name of an endpoint in another cluster has the cluster after the label: `LABEL.CLUSTER.NAME...`.
    """
    parts: tuple[bytes, ...] = (parsed.name, parsed.namespace, SVC)
    if label is not None:
        parts = (label, cluster, *parts) if cluster else (label, *parts)
    wire = b"".join(bytes((len(part),)) + part for part in parts) + zone.lower
    return Name(wire) if len(wire) <= MAX_NAME_LEN else None


def address_type(address: bytes) -> int:
    """A for 4 octets, AAAA for 16."""
    return RRType.A if len(address) == 4 else RRType.AAAA


def pointers(value: ServiceValue, owner: SliceKey, address: bytes, zone: Name) -> list[Name]:
    """The names of an address in one slice, one for each occurrence."""
    parsed = ParsedName(SVC, owner[0], owner[1])
    return [
        target
        for part in value.slices
        if part.name == owner[2]
        for index in part.positions(address)
        if (target := target_name(part.label(index), parsed, zone)) is not None
    ]
