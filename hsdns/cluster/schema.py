"""The records of a Service, computed from its value as the Kubernetes DNS specification 1.1.0 and CoreDNS define them.

Path: lookup.py and answer.py call it for a query; the records are cached in the value and dropped with it.
Rule 1: records are computed from one value, so a reply shows one state of a Service.
Rule 2: only names that the Service itself defines are cached, so what a value keeps is bounded by its own size.
Rule 3: owner names are lower case; name compression against the question restores the client's case.

The parts of a name in a cluster zone: Service, endpoint, port, pod:
Source: CoreDNS 1.14.7 plugin/kubernetes/parse.go; the Kubernetes DNS specification 1.1.0 names the records.

    zone                                  apex
    svc.zone, pod.zone                    exist without records
    NAMESPACE.svc.zone                    exists if the namespace does
    NAME.NAMESPACE.svc.zone               a Service
    ENDPOINT.NAME.NAMESPACE.svc.zone      one of its endpoints
    _PORT._PROTOCOL.NAME.NAMESPACE.svc.zone   one of its ports; the underscores are optional
    ADDRESS.NAMESPACE.pod.zone            a pod; labels left of the address are ignored
    TOPOLOGY.pin._zone.NAME.NAMESPACE.svc.zone      with `zonal`: the endpoints in a topology zone (one or more labels)
    TOPOLOGY.prefer._zone.NAME.NAMESPACE.svc.zone   the same, but all endpoints if the topology zone has none
    ENDPOINT.CLUSTER.NAME.NAMESPACE.svc.zone        in a zone of `multicluster`, if neither label begins with "_"

There are no wildcards and no other empty non-terminals: `_tcp.NAME...` is an endpoint with the label "_tcp".

Why a name of the cluster has no records, in a few words: the texts of Extended DNS Errors:
Rule 1: a text is made from the same value as the reply, so it becomes stale with the reply.
Rule 2: a text names no object: the client knows the name, and must not learn of other objects.  So there are few
        different texts, and entries of the answer table share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final, NamedTuple

from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    NO_PORT,
    Entry,
    Node,
    ServiceValue,
    SliceKey,
    port_matches,
)
from hsdns.wire.iana import RRClass, RRType, type_to_text
from hsdns.wire.message import RR, make_records
from hsdns.wire.name import MAX_NAME_LEN, Name, labels_to_wire
from hsdns.wire.rdata import srv

SVC: Final = b"svc"
POD: Final = b"pod"
_ANCHOR: Final = b"_zone"
_DIRECTIVES: Final = (b"pin", b"prefer")


class ParsedName(NamedTuple):
    """The parts of a name, b"" if missing; `kind` is SVC, POD, or b"" for names that exist without records.

    `prefers` asks for all endpoints if the topology zone has none.
    """

    kind: bytes
    namespace: bytes = b""
    name: bytes = b""
    endpoint: bytes = b""
    port: bytes = b""
    protocol: bytes = b""
    cluster: bytes = b""
    topology_zone: bytes = b""
    prefers: bool = False


EMPTY: Final = ParsedName(b"")


def parse(
    labels: tuple[bytes, ...], *, zonal: bool = False, multicluster: bool = False
) -> ParsedName | None:
    """Parse the lower-case labels left of the zone; None for names that cannot exist."""
    if not labels or labels in ((SVC,), (POD,)):
        return EMPTY
    kind, count = labels[-1], len(labels)
    if kind not in (SVC, POD):
        return None
    if count == 2:
        return ParsedName(kind, labels[0])
    if count == 3:
        return ParsedName(kind, labels[1], labels[0])
    if count == 4:
        return ParsedName(kind, labels[2], labels[1], endpoint=labels[0])
    if count == 5:
        first, second = labels[0], labels[1]
        if multicluster and not first.startswith(b"_") and not second.startswith(b"_"):
            return ParsedName(kind, labels[3], labels[2], endpoint=first, cluster=second)
        return ParsedName(
            kind,
            labels[3],
            labels[2],
            port=first.removeprefix(b"_"),
            protocol=second.removeprefix(b"_"),
        )
    directive = labels[-5]
    if (
        not zonal
        or multicluster
        or kind != SVC
        or labels[-4] != _ANCHOR
        or directive not in _DIRECTIVES
    ):
        return None
    # A topology zone is the value of a Kubernetes label, so it may contain dots.
    topology_zone = b".".join(label.replace(b".", b"\\.") for label in labels[:-5])
    return ParsedName(
        kind,
        labels[-2],
        labels[-3],
        topology_zone=topology_zone,
        prefers=directive == b"prefer",
    )


NO_FORM: Final = "not the form of a name of a Service, endpoint or Pod"
NO_NAMESPACE: Final = "no such namespace"
NO_SERVED_NAMESPACE: Final = "no such namespace is served"
NO_SERVICE: Final = "no such Service in the namespace"
NO_SERVED_SERVICE: Final = "no such Service of the namespace is served"
NO_POD: Final = "no Pod of the namespace has this address"
NO_ADDRESS: Final = "not the address of a Pod"
PODS_DISABLED: Final = "names of Pods are disabled"
NO_POINTER: Final = "no Service or endpoint that is served has this address"
NO_RECORDS: Final = "the name has no records of any type"
_FAMILIES: Final = {RRType.A: "IPv4", RRType.AAAA: "IPv6"}


def readiness(value: ServiceValue, *, counted: bool = True) -> str:
    """How many endpoints of a Service are ready; without the total unless those not ready are `counted`."""
    ready, count = value.readiness
    if not counted:
        return f"{ready} endpoints ready" if ready else "no ready endpoints"
    return f"{ready} of {count} endpoints ready" if count else "no endpoints"


def absence(value: ServiceValue, parsed: ParsedName, *, counted: bool) -> str:
    """Why a name at or below a Service, or at or below one that has only slices, does not exist."""
    if value.kind is None:
        unusable = "the externalName of the Service is not a domain name"
        return unusable if value.resource_version else NO_SERVICE
    if value.kind == EXTERNAL_NAME:
        return "a Service of type ExternalName has no names below its own"
    if parsed.topology_zone:
        return "only headless Services have names for a topology zone"
    if parsed.endpoint:
        return f"no ready endpoint has this name; {readiness(value, counted=counted)}"
    if value.kind == HEADLESS and not value.has_endpoints:
        return readiness(value, counted=counted)
    return "no such port"


def nodata(found: Node | bytes | None, qtype: int) -> str:
    """Why an existing name has no records of a type; `found` is the result of lookup.py."""
    family = _FAMILIES.get(qtype)
    if family is None or found is None:
        return f"the name has no {type_to_text(qtype)} records"
    if isinstance(found, bytes) or found.a or found.aaaa:
        return f"no {family} address"
    if found.targets:
        return f"the externalName leads to no {type_to_text(qtype)} records"
    return "no address"


PIECE: Final = 500  # entries between two turns of the event loop; takes a millisecond or two


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
            return node  # such a name exists for any text of a client
    value.nodes[qname.lower] = node
    return node


def _make(value: ServiceValue, parsed: ParsedName, owner: Name, ttl: int) -> Node | None:
    if parsed.topology_zone and value.kind != HEADLESS:
        return None  # a ClusterIP does not belong to a topology zone
    if parsed.endpoint or value.has_topology_zone(parsed.topology_zone):
        found = [entry.host for entry in _entries(value, parsed)]
        count = len(found)
    elif parsed.topology_zone and not parsed.prefers:
        found, count = [], 0
    else:
        found, count = value.hosts(parsed.port, parsed.protocol)
    first = found[0] if found else None
    if not count and not parsed.topology_zone and not _port_matches(value, parsed):
        return None
    hosts = dict.fromkeys(found)
    targets = tuple([host for host in hosts if isinstance(host, Name)])
    addresses = [host for host in hosts if isinstance(host, bytes)]
    a = [host for host in addresses if len(host) == 4]
    aaaa = [host for host in addresses if len(host) != 4] if len(a) < len(addresses) else []
    return Node(
        _records(owner, RRType.A, ttl, a),
        _records(owner, RRType.AAAA, ttl, aaaa),
        count,
        first,
        targets,
    )


def _records(owner: Name, rrtype: int, ttl: int, rdata: Sequence[bytes]) -> tuple[RR, ...]:
    """The RRset, built column by column, because a Service may have 20,000 endpoints."""
    if len(rdata) <= 1:  # most have one address, and none of the other family
        return (RR(owner, rrtype, ttl, rdata[0]),) if rdata else ()
    columns = (repeat(owner), repeat(rrtype), repeat(ttl), rdata, repeat(RRClass.IN))
    return tuple(make_records(*columns))


def _entries(value: ServiceValue, parsed: ParsedName) -> Iterator[Entry]:
    """The entries that match a question; with `prefer`, all of them if the topology zone has none."""
    if parsed.topology_zone and not (
        parsed.prefers and not value.has_topology_zone(parsed.topology_zone)
    ):
        return value.entries_in(parsed.topology_zone)
    endpoint = parsed.endpoint or None
    return value.entries(endpoint, parsed.port, parsed.protocol, parsed.cluster)


def _port_matches(value: ServiceValue, parsed: ParsedName) -> bool:
    """Whether a Service without a usable ClusterIP exists because one of its ports matches."""
    return (
        not parsed.endpoint
        and not value.cluster_ips
        and value.kind == CLUSTER_IP
        and any(port_matches(port, parsed.port, parsed.protocol) for port in value.ports)
    )


def make_srv(
    value: ServiceValue, node: Node, parsed: ParsedName, qname: Name, zone: Name, ttl: int
) -> Iterator[None]:
    """Make the SRV records of an existing name and the addresses of their targets, `node.srv`, piece by piece.

    It takes 0.2 s for a Service with 20,000 endpoints, so the caller lets other tasks run between the pieces.  The
    weight is floor(100 / entries), at least 1, where the entries are all (address, port) pairs, including duplicates
    and pairs without a port number (CoreDNS plugin/backend_lookup.go).
    """
    entries: list[tuple[bytes, bytes | None, int, bytes]] = []
    for number, (host, label, port, cluster) in enumerate(_entries(value, parsed), 1):
        if isinstance(host, bytes):
            entries.append((host, label, port, cluster))
        if number % PIECE == 0:
            yield
    owner, weight = qname.lowered(), max(1, 100 // len(entries)) if entries else 1
    answer: dict[tuple[bytes, int], RR] = {}
    additional: dict[tuple[bytes, bytes], RR] = {}
    targets: dict[tuple[bytes | None, bytes], Name | None] = {}
    for number, (host, label, port, cluster) in enumerate(entries, 1):
        if number % PIECE == 0:
            yield
        if port == NO_PORT:
            continue
        if (label, cluster) not in targets:
            targets[label, cluster] = target_name(label, parsed, zone, cluster)
        target = targets[label, cluster]
        if target is None:  # the name would be over 255 octets
            continue
        name = target.lower
        if (name, port) not in answer:
            answer[name, port] = RR(owner, RRType.SRV, ttl, srv(0, weight, port & 0xFFFF, target))
        if (name, host) not in additional:
            additional[name, host] = RR(target, address_type(host), ttl, host)
    node.srv = tuple(answer.values()), tuple(additional.values())


def target_name(
    label: bytes | None, parsed: ParsedName, zone: Name, cluster: bytes = b""
) -> Name | None:
    """`LABEL.NAME.NAMESPACE.svc.ZONE` or, without a label, `NAME.NAMESPACE.svc.ZONE`; None if it is too long.

    The name of an endpoint in another cluster has the cluster after the label: `LABEL.CLUSTER.NAME...`, and one
    outside of all clusters has no kind: `NAME.NAMESPACE.ZONE`.
    """
    parts: tuple[bytes, ...] = parsed.name, parsed.namespace, *filter(None, (parsed.kind,))
    if label is not None:
        parts = (label, cluster, *parts) if cluster else (label, *parts)
    wire = labels_to_wire(parts) + zone.lower
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
