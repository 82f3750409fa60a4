"""The reply to a question in a cluster zone: one method for each record type.

Path: the kubernetes plugin finds the zone and asks; lookup.py finds the name, schema.py makes the records of Services,
and Nameserver those of the zone itself.
Rule 1: a name that does not exist raises NoSuchName; the plugin turns that into a fallthrough, SERVFAIL or NXDOMAIN.
Rule 2: every reply is `fresh`: it is computed from the newest event, so `cache` must not store it.
Rule 3: nothing here waits.  A reply that needs names outside the zone, or the SRV records of a large Service, says so
        (Needs), and who asks resolves them or lets other tasks run.
Source: CoreDNS 1.14.7 plugin/kubernetes and plugin/backend_lookup.go.

The name servers of a cluster zone: the NS records at the apex and the addresses of `ns.dns.ZONE`:
Source: CoreDNS 1.14.7 plugin/kubernetes/ns.go, local.go.  If an address of this host is an endpoint of a Service, that
Service is the name server (kube-dns in a cluster), else `ns.dns.ZONE` with the addresses of this host.

All records of a cluster zone, for zone transfers:
Rule 1: a transfer has the state of one moment.  The values are collected when it begins and never change, so even a
        slow client gets the zone with the serial of the SOA record.
Rule 2: names that are answered but not listed are not transferred: pods, addresses as names of pods, `dns-version`.
Source: CoreDNS 1.14.7 plugin/kubernetes xfr.go for the order, the weights and the TTL of glue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop
from types import MappingProxyType
from typing import Final, NamedTuple

from hsdns.cluster import schema
from hsdns.cluster.address import REVERSE_ZONES, address_of, pack_address
from hsdns.cluster.freshness import ANYTHING, Dependencies
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.schema import SVC, ParsedName
from hsdns.cluster.store import ClusterView
from hsdns.cluster.value import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    HEADLESS,
    Node,
    PackedSlice,
    Port,
    ServiceValue,
    SliceKey,
)
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import RR, Reply, nodata, unwritten
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import soa, srv, txt

SOA_TTL_CAP: Final = 300  # seconds (CoreDNS plugin/backend_lookup.go)
VERSION_TTL: Final = 28800  # seconds
SCHEMA_VERSION: Final = b"1.1.0"  # of the Kubernetes DNS specification
MAX_CHAIN: Final = 10  # CNAMEs in a row
# The most CNAMEs followed for one question: slices of addressType FQDN can lead to several names at every step.
MAX_FOLLOWED: Final = 256

Outside = Mapping[Name, Reply]
NOTHING_OUTSIDE: Final[Outside] = MappingProxyType({})


class Needs(NamedTuple):
    """What a reply needs: replies for names outside the zone, with the question's type, or time.

    With the replies for all `targets`, answer() is called again.  `pieces` yields None wherever other tasks may run,
    and at last the reply.
    """

    targets: tuple[Name, ...]
    pieces: Iterator[Reply | None]


class _CnameChase:
    """The state of following one question's CNAMEs: how many may still be followed, and what is missing outside."""

    __slots__ = ("dependencies", "left", "missing", "outside")

    def __init__(self, outside: Outside, dependencies: Dependencies | None) -> None:
        self.outside = outside
        self.dependencies = dependencies
        self.left = MAX_FOLLOWED
        self.missing: dict[Name, None] = {}


class ClusterAnswers:
    """Answers questions with the names that a lookup finds; `local_addresses` are this server's, for NS records."""

    def __init__(self, lookup: NameLookup, local_addresses: Sequence[str] = ()) -> None:
        self.lookup, self.ttl = lookup, lookup.ttl
        self.nameserver = Nameserver(lookup.store, lookup.ttl, local_addresses)

    def soa(self, zone: Name) -> RR:
        """The SOA record of a zone; its TTL is capped, its MINIMUM field is not."""
        store = self.lookup.store
        rdata = soa(
            Name(b"\2ns\3dns" + zone.lower),
            Name(b"\12hostmaster" + zone.lower),
            store.imports.serial if self.lookup.is_multicluster(zone) else store.serial,
            7200,
            1800,
            86400,
            self.ttl,
        )
        return RR(zone, RRType.SOA, min(self.ttl, SOA_TTL_CAP), rdata)

    def answer(
        self,
        qname: Name,
        qtype: int,
        zone: Name,
        outside: Outside = NOTHING_OUTSIDE,
        dependencies: Dependencies | None = None,
    ) -> Reply | Needs:
        """The reply for a name in a zone; raise NoSuchName.  `outside` has what names outside the zone resolve to."""
        if qtype in ADDRESSES:
            chase = _CnameChase(outside, dependencies)
            records, truncated = self._addresses(qname, qtype, zone, chase, ())
            if chase.missing:
                return Needs(tuple(chase.missing), iter(()))
            return self._positive(zone, records, tc=truncated)
        if qtype == RRType.SRV:
            return self._srv(qname, zone, dependencies)
        if qtype == RRType.PTR:
            return self._positive(zone, self._ptr(qname, zone, dependencies))
        if qtype == RRType.SOA:
            return self._positive(zone, (self.soa(zone),) if qname == zone else ())
        if qtype == RRType.TXT:
            return self._positive(zone, self._txt(qname, zone, dependencies))
        if qtype == RRType.CNAME:
            return self._positive(zone, self._cname(qname, zone, dependencies))
        if qtype == RRType.NS and qname == zone:
            if dependencies is not None:
                dependencies.add(ANYTHING)
            return self._positive(zone, *self.nameserver.records(zone))
        if qtype in (RRType.AXFR, RRType.IXFR):
            return unwritten(Rcode.REFUSED)
        if not self.nameserver.is_default(qname, zone):
            self.lookup.find(qname, zone, dependencies)  # raises NoSuchName
        return self._positive(zone, ())

    def is_missing(self, qname: Name, qtype: int, zone: Name) -> bool:
        """Whether a name does not exist now."""
        try:
            self.answer(qname, qtype, zone)
        except NoSuchName:
            return True
        return False

    def answer_at_once(
        self, qname: Name, qtype: int, zone: Name, outside: Outside = NOTHING_OUTSIDE
    ) -> Reply | tuple[Name, ...]:
        """The same without a turn for other tasks; the names outside the zone if it needs more of them."""
        found = self.answer(qname, qtype, zone, outside)
        if isinstance(found, Reply):
            return found
        return next(filter(None, found.pieces), found.targets)

    def nodata_reason(self, qname: Name, qtype: int, zone: Name) -> str:
        """Why a reply of answer() has no records, in a few words."""
        found: tuple[Node, ParsedName] | bytes | None = None
        if qtype in ADDRESSES and not self.nameserver.is_default(qname, zone):
            with contextlib.suppress(NoSuchName):  # gone since; answer() is called again
                found = self.lookup.find(qname, zone, None)
        return schema.nodata(found[0] if isinstance(found, tuple) else found, qtype)

    def _positive(
        self,
        zone: Name,
        answer: tuple[RR, ...],
        additional: tuple[RR, ...] = (),
        *,
        tc: bool = False,
    ) -> Reply:
        if not answer:
            return nodata(self.soa(zone)).replace(fresh=True)
        return Reply(answer=answer, additional=additional, aa=True, tc=tc, fresh=True)

    # One method for each record type; all raise NoSuchName if the name does not exist.

    def _addresses(
        self, qname: Name, qtype: int, zone: Name, chase: _CnameChase, before: tuple[RR, ...]
    ) -> tuple[tuple[RR, ...], bool]:
        """Records of one address type, with ExternalNames followed, and whether an outside answer was truncated."""
        if self.nameserver.is_default(qname, zone):
            if chase.dependencies is not None:
                chase.dependencies.add(ANYTHING)
            return self.nameserver.addresses(qname, qtype, zone), False
        found = self.lookup.find(qname, zone, chase.dependencies)
        if found is None:
            return (), False
        if isinstance(found, bytes):
            wanted = schema.address_type(found) == qtype
            return ((RR(qname.lowered(), qtype, self.ttl, found),) if wanted else ()), False
        node, _ = found
        records = node.a if qtype == RRType.A else node.aaaa
        truncated = False
        for target in node.targets:
            more, cut = self._follow(qname, target, qtype, zone, chase, before)
            records, truncated = records + more, truncated or cut
        # Several targets, or a loop, can lead to the same record; an RRset contains it once (RFC 2181 section 5).
        return (tuple(dict.fromkeys(records)) if node.targets else records), truncated

    def _follow(
        self,
        qname: Name,
        target: Name,
        qtype: int,
        zone: Name,
        chase: _CnameChase,
        before: tuple[RR, ...],
    ) -> tuple[tuple[RR, ...], bool]:
        """A CNAME and the records of its target; nothing if the target is in the zone and has no records.

        A target in a namespace that `namespaces` excludes is another server's: this one looks it up like one outside.
        """
        cname = RR(qname.lowered(), RRType.CNAME, self.ttl, target.lower)
        chase.left -= 1
        if target.is_at_or_below(qname) or len(before) > MAX_CHAIN or chase.left < 0:
            return (), False
        # Already followed, under this or another name.
        if any(known.rdata == cname.rdata for known in before):
            return (), False
        is_inside = target.is_at_or_below(zone)
        if is_inside and not self.lookup.excludes(target, zone):
            try:
                records, cut = self._addresses(target, qtype, zone, chase, (*before, cname))
            except NoSuchName:
                return (), False
            return ((cname, *records) if records else ()), cut
        reply = chase.outside.get(target)
        if reply is None:
            chase.missing[target] = None
        if reply is None or reply.dropped or (is_inside and not reply.answer):
            return (), False
        return (cname, *reply.answer), reply.tc

    def _srv(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> Reply | Needs:
        if self.nameserver.is_default(qname, zone):
            return self._positive(zone, ())
        found = self.lookup.find(qname, zone, dependencies)
        if found is None:
            return self._positive(zone, ())
        if isinstance(found, bytes):
            # Labels left of a pod's address are ignored, in the target too.
            target = Name.from_labels((*qname.below(zone)[-3:], *zone.labels))
            parsed = self.lookup.parse(qname, zone)
            assert parsed is not None, "found"
            weight = max(1, 100 // self.lookup.pod_entries(found, parsed.namespace))
            record = RR(qname.lowered(), RRType.SRV, self.ttl, srv(0, weight, 0, target))
            additional = RR(target, schema.address_type(found), self.ttl, found)
            return self._positive(zone, (record,), (additional,))
        node, parsed = found
        if node.srv is None:
            value = self.lookup.values(zone)[parsed.namespace, parsed.name]
            pieces = schema.make_srv(value, node, parsed, qname, zone, self.ttl)
            for _ in pieces:  # the first of several
                return Needs((), self._srv_in_pieces(zone, node, pieces))
        assert node.srv is not None, "made"
        return self._positive(zone, *node.srv)

    def _srv_in_pieces(
        self, zone: Name, node: Node, pieces: Iterator[None]
    ) -> Iterator[Reply | None]:
        yield None
        yield from pieces
        assert node.srv is not None, "made"
        yield self._positive(zone, *node.srv)

    def _ptr(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        address = address_of(qname)
        if address is None:
            self.lookup.find(qname, zone, dependencies)
            return ()
        targets = self.lookup.pointers(address, dependencies)
        if not targets:
            raise NoSuchName(schema.NO_POINTER)
        owner = qname.lowered()
        return tuple(
            RR(owner, RRType.PTR, self.ttl, target.wire) for target in dict.fromkeys(targets)
        )

    def _txt(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        """The schema version or NODATA; a name without any record is a name error for TXT, even if it exists."""
        if qname.below(zone) == (b"dns-version",):
            return (RR(qname.lowered(), RRType.TXT, VERSION_TTL, txt(SCHEMA_VERSION)),)
        found = self.lookup.find(qname, zone, dependencies)
        if found is None:
            raise NoSuchName(schema.NO_RECORDS)
        if not isinstance(found, bytes) and not found[0].entry_count and not found[1].topology_zone:
            raise NoSuchName(schema.NO_RECORDS)
        return ()

    def _cname(self, qname: Name, zone: Name, dependencies: Dependencies | None) -> tuple[RR, ...]:
        if self.nameserver.is_default(qname, zone):
            return ()
        found = self.lookup.find(qname, zone, dependencies)
        if found is None or isinstance(found, bytes) or not isinstance(found[0].first, Name):
            return ()
        return (RR(qname.lowered(), RRType.CNAME, self.ttl, found[0].first.lower),)


_DEFAULT: Final = b"\2ns\3dns"


class Nameserver:
    """NS records and their addresses, computed from the store for each query."""

    def __init__(self, store: ClusterView, ttl: int, local_addresses: Sequence[str]) -> None:
        self._services = store.services
        self._ttl = ttl
        self._local = [
            packed for text in local_addresses if (packed := pack_address(text)) is not None
        ]

    @staticmethod
    def is_default(qname: Name, zone: Name) -> bool:
        """Whether a name is `ns.dns.ZONE`."""
        return qname.lower == _DEFAULT + zone.lower

    def records(self, zone: Name) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
        """The NS RRset and the addresses of its names: each name once, an address once for each occurrence."""
        found = list(self._found(zone))
        names = dict.fromkeys(name for name, _ in found)
        answer = tuple(RR(zone, RRType.NS, self._ttl, name.wire) for name in names)
        glue = tuple(
            RR(name, schema.address_type(address), self._ttl, address) for name, address in found
        )
        return answer, glue

    def addresses(self, qname: Name, qtype: int, zone: Name) -> tuple[RR, ...]:
        """A or AAAA records of `ns.dns.ZONE`."""
        owner = qname.lowered()
        addresses = dict.fromkeys(address for _, address in self._found(zone))
        return tuple(
            RR(owner, qtype, self._ttl, address)
            for address in addresses
            if schema.address_type(address) == qtype
        )

    def external(self, *, headless: bool) -> list[bytes]:
        """The external addresses of this server: those of the Services of which it is an endpoint.

        With `headless`, the endpoints of a headless Service count as external.  A server that is not an endpoint of any
        Service has the addresses of its host.
        """
        found, is_endpoint = dict[bytes, None](), False
        for owner, value in self._endpoints():
            is_endpoint = True
            if headless and value.kind == HEADLESS:
                found.update((host, None) for _, host in _hosts(value, owner))
            elif value.kind is not None:
                found.update((each, None) for each in value.external if isinstance(each, bytes))
        return list(found) if is_endpoint else list(dict.fromkeys(self._local))

    def _endpoints(self) -> Iterator[tuple[SliceKey, ServiceValue]]:
        """The slices that have an address of this host, and the values of their Services.

        In the middle of an event the index has an address that its slice has no longer.
        """
        services = self._services
        for local in self._local:
            for owner in services.endpoint_ips.lookup(local):
                value = services.values.get((owner[0], owner[1]))
                if value is not None and any(
                    part.name == owner[2] and local in part.separate for part in value.slices
                ):
                    yield owner, value

    def _found(self, zone: Name) -> Iterator[tuple[Name, bytes]]:
        is_endpoint = False
        for owner, value in self._endpoints():
            is_endpoint = True
            parsed = ParsedName(SVC, owner[0], owner[1])
            if value.kind == HEADLESS:
                for label, host in _hosts(value, owner):
                    name = schema.target_name(label, parsed, zone)
                    if name is not None:
                        yield name, host
            elif value.kind == CLUSTER_IP:
                name = schema.target_name(None, parsed, zone)
                if name is not None:
                    for address in value.cluster_ips:
                        yield name, address
        if not is_endpoint:
            default = Name(_DEFAULT + zone.lower)
            for address in self._local:
                yield default, address


def _hosts(value: ServiceValue, owner: SliceKey) -> Iterator[tuple[bytes, bytes]]:
    """The labels and addresses of the endpoints of one slice."""
    for part in value.slices:
        if part.name == owner[2]:
            for host, label in part.places:
                if isinstance(host, bytes):
                    yield label, host


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
    for host, label in part.places:
        target = _below(own, label)
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
