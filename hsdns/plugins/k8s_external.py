"""Serves the external addresses of Services.

Path: step 5, directly before `kubernetes`, whose cluster it uses; ExternalNames finds the entries of a name.
Source: CoreDNS 1.14.7 plugin/k8s_external.
Rule 1: as in CoreDNS, addresses, PTR, NS and SOA records have the `ttl` of this block, SRV and CNAME records that of
        the kubernetes block.
Rule 2: `ns1.APEX.ZONE` is this server, with the external addresses of the Service that it is an endpoint of.
Rule 3: the records of thousands of endpoints are made in several turns of the loop.  As in `kubernetes`, a reply is
        computed again if an event changed its dependencies meanwhile.
Cacheable: yes, as with `kubernetes` its answers depend only on the question and the store, and the store's counters
        tell when it changes.  Replies with an SOA record are not: the answer table would write another zone's serial.

The names of Services in the zones of k8s_external: their addresses outside the cluster:
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
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final, Self

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.chain import Handler, Next, Request, zones_within
from hsdns.cluster.address import address_of
from hsdns.cluster.answer import ClusterAnswers, has_records
from hsdns.cluster.freshness import (
    ANYTHING,
    Dependencies,
    address_counter,
    attempts,
    service_counter,
)
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.schema import ParsedName, address_type, target_name
from hsdns.cluster.value import HEADLESS, NO_PORT, Entry, Key, ServiceValue, port_matches
from hsdns.corefile.keys import read_fallthrough, read_name, zones_from_args
from hsdns.corefile.properties import Property, flag, integer, one, only_once, read_properties
from hsdns.corefile.tree import Directive, Position, Token
from hsdns.plugin import Block, Plugin
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.turns import AT_ONCE, another_turn, listed
from hsdns.wire.iana import ADDRESSES, RRType
from hsdns.wire.message import RR, Reply, nodata, nxdomain
from hsdns.wire.name import MAX_NAME_LEN, Name
from hsdns.wire.rdata import soa, srv


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
                    yield from dict.fromkeys(
                        _host_record(owner, each, ttl, srv_ttl) for each in entries
                    )
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
        return ParsedName(b"", labels[0])
    if count == 2:
        return ParsedName(b"", labels[1], labels[0])
    if count == 3:
        return ParsedName(b"", labels[2], labels[1], endpoint=labels[0].removeprefix(b"_"))
    if count == 4:
        port, protocol = (label.removeprefix(b"_") for label in labels[:2])
        return ParsedName(b"", labels[3], labels[2], port=port, protocol=protocol)
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


def _host_record(owner: Name, entry: Entry, ttl: int, alias_ttl: int) -> RR:
    if isinstance(entry.host, Name):
        return RR(owner, RRType.CNAME, alias_ttl, entry.host.lower)
    return RR(owner, address_type(entry.host), ttl, entry.host)


_NS1: Final = b"\3ns1"
_HOSTMASTER: Final = b"\12hostmaster"


def read_apex(token: Token) -> Name:
    """Parse the name below the zone that holds its name servers."""
    apex = read_name(token)
    if not apex.labels:
        raise token.error("apex needs at least one label, for example dns")
    return apex


class K8sExternal(Plugin):
    """Answers A, AAAA, SRV and PTR for external addresses of Services."""

    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "apex": Property(one(read_apex), default=Name(b"\3dns\0"), syntax="NAME", reads=1),
        "ttl": Property(one(integer(0, 3600)), default=5, syntax="SECONDS", reads=1),
        "headless": Property(flag, default=False, reads=0, stops=True),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONE...]"),
    }

    def __init__(
        self, zones: tuple[Name, ...], options: dict[str, Any], position: Position
    ) -> None:
        self.zones = zones
        self.kubernetes: Kubernetes  # find_handlers() finds it
        self._apex: Name = options["apex"]
        self._ttl: int = options["ttl"]
        self._headless: bool = options["headless"]
        self._fallthrough: tuple[Name, ...] = options["fallthrough"]
        self._position = position

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `k8s_external [ZONE...]`."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES)
        zones = zones_from_args(directive.args) or block.zones
        spare = MAX_NAME_LEN - len(_HOSTMASTER) - len(options["apex"].wire)
        for zone in zones:
            if len(zone.wire) > spare:
                raise directive.error(
                    f"zone {zone.to_text()} is too long for the names of its name servers; shorten it, or the apex"
                )
        return cls(zones, options, directive.name.position)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the cluster."""
        for handler in handlers:
            if isinstance(handler, Kubernetes):
                self.kubernetes = handler
                return
        raise self._position.error(
            "k8s_external needs a kubernetes plugin in the same server block; add it"
        )

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Its zones: the labels of a name do not tell whether it exists."""
        return zones_within(zone, self.zones)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the store; pass on names outside the zones and those that fall through."""
        qname = request.query.qname
        zone = qname.longest_of(self.zones)
        if zone is None:
            return await next(request)
        await self.kubernetes.catch_up(request)
        zone = zone.lowered()
        found: Reply | None = None
        for dependencies in attempts(request.dependencies if request.earlier is None else None):
            found = await self._find(request.replace(dependencies=dependencies), zone)
        if request.earlier is not None and self.kubernetes.has_changed_since(request.earlier):
            newest = await self._find(request.replace(earlier=None), zone)
            request.earlier.compare(found, newest)
        if found is not None:
            return self._finish(request, found)
        if any(qname.is_at_or_below(through) for through in self._fallthrough):
            reply = await next(request)
            return reply.held(partial(self._is_missing, request.replace(earlier=None), zone))
        return self._finish(request, nxdomain(self._soa(request, zone)))

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All records of one of its forward zones; LookupError before the cluster has been read."""
        if zone not in self.zones or not has_records(zone):
            return None
        if not self.kubernetes.store.serves:
            raise LookupError(f"zone {zone.to_text()}: the cluster has not been read yet")
        zone = zone.lowered()
        servers, glue = self._servers(None, zone)
        named = self._names(None).records(zone, self._ttl, self.kubernetes.answers.ttl)
        return ZoneTransfer(self._soa(None, zone), chain(servers, glue, named))

    async def _find(self, request: Request, zone: Name) -> Reply | None:
        """The reply for a name in a zone, None if the name does not exist."""
        qname = request.query.qname
        if qname == zone:
            return self._at_apex(request, zone)
        servers = Name(self._apex.lower[:-1] + zone.lower)
        if qname.is_at_or_below(servers):
            return self._below_apex(request, zone, servers)
        try:
            return await self._answer(request, zone)
        except NoSuchName:
            return None

    def _at_apex(self, request: Request, zone: Name) -> Reply:
        qtype = request.query.qtype
        if qtype == RRType.SOA:
            return Reply(answer=(self._soa(request, zone),), aa=True)
        if qtype != RRType.NS:
            return nodata(self._soa(request, zone))
        if request.dependencies is not None:
            request.dependencies.add(ANYTHING)
        answer, glue = self._servers(request, zone)
        return Reply(answer=answer, additional=glue, aa=True)

    def _below_apex(self, request: Request, zone: Name, servers: Name) -> Reply:
        query = request.query
        if query.qname == servers:
            return nodata(self._soa(request, zone))
        if query.qname != self._server(zone):
            return nxdomain(self._soa(request, zone))
        owner = query.qname.lowered()
        if request.dependencies is not None:
            request.dependencies.add(ANYTHING)
        _, glue = self._servers(request, zone)
        answer = tuple(rr._replace(owner=owner) for rr in glue if rr.rrtype == query.qtype)
        return Reply(answer=answer, aa=True) if answer else nodata(self._soa(request, zone))

    async def _answer(self, request: Request, zone: Name) -> Reply:
        """The reply for a name that exists; raise NoSuchName."""
        query = request.query
        address = address_of(query.qname) if query.qtype == RRType.PTR else None
        if address is not None:
            return self._pointers(request, address)
        entries, parsed = self._names(request).find(query.qname.below(zone), request.dependencies)
        answer: dict[RR, None] = {}
        additional: dict[RR, None] = {}
        truncated = False
        if query.qtype in ADDRESSES:
            for number, entry in enumerate(entries, 1):
                truncated |= await self._add_address(request, entry, answer)
                if number % AT_ONCE == 0:
                    await another_turn()
        elif query.qtype == RRType.SRV:
            await self._add_srv(request, await listed(entries), parsed, zone, answer, additional)
        if not answer:
            return nodata(self._soa(request, zone))
        return Reply(answer=tuple(answer), additional=tuple(additional), aa=True, tc=truncated)

    async def _add_address(self, request: Request, entry: Entry, answer: dict[RR, None]) -> bool:
        """Add an address of the query type, or a load balancer's name and its addresses; return their TC."""
        owner, qtype = request.query.qname.lowered(), request.query.qtype
        if isinstance(entry.host, bytes):
            if address_type(entry.host) == qtype:
                answer[RR(owner, qtype, self._ttl, entry.host)] = None
            return False
        cname = RR(owner, RRType.CNAME, self.kubernetes.answers.ttl, entry.host.lower)
        if cname in answer:  # added for another port
            return False
        answer[cname] = None
        found = await self.kubernetes.look_up(request, entry.host, qtype)
        answer |= dict.fromkeys(found.answer)
        return found.tc

    async def _add_srv(
        self,
        request: Request,
        entries: Sequence[Entry],
        parsed: ParsedName,
        zone: Name,
        answer: dict[RR, None],
        additional: dict[RR, None],
    ) -> None:
        owner = request.query.qname.lowered()
        records = srv_records(entries, parsed, owner, zone, self.kubernetes.answers.ttl)
        for number, record in enumerate(records, 1):
            answer[record] = None
            if number % AT_ONCE == 0:
                await another_turn()
        looked_up: set[Name] = set()
        for number, (host, label, port, _) in enumerate(entries, 1):
            if number % AT_ONCE == 0:
                await another_turn()
            if port == NO_PORT:
                continue
            if isinstance(host, bytes):
                target = target_name(label, parsed, zone)
                if target is not None:
                    additional[RR(target, address_type(host), self._ttl, host)] = None
            elif host not in looked_up:
                looked_up.add(host)
                for qtype in ADDRESSES:
                    found = await self.kubernetes.look_up(request, host, qtype)
                    additional |= dict.fromkeys(found.answer)

    def _pointers(self, request: Request, address: bytes) -> Reply:
        owner = request.query.qname.lowered()
        names = (
            target_name(None, ParsedName(b"", namespace, name), self.zones[0])
            for namespace, name in self._names(request).pointers(address, request.dependencies)
        )
        found = [name.lower for name in names if name is not None]
        if not found:
            raise NoSuchName
        return Reply(
            answer=tuple(RR(owner, RRType.PTR, self._ttl, each) for each in found), aa=True
        )

    def _answers(self, request: Request | None) -> ClusterAnswers:
        """The code that answers a request, or a transfer."""
        block = self.kubernetes
        return block.answers if request is None else block.answers_for(request)

    def _names(self, request: Request | None) -> ExternalNames:
        return ExternalNames(self._answers(request).lookup, headless=self._headless)

    def _is_missing(self, request: Request, zone: Name) -> bool:
        """Whether a name that was passed on still does not exist."""
        query = request.query
        address = address_of(query.qname) if query.qtype == RRType.PTR else None
        if address is not None:
            return not self._names(request).pointers(address, None)
        try:
            self._names(request).find(query.qname.below(zone), None)
        except NoSuchName:
            return True
        return False

    def _servers(
        self, request: Request | None, zone: Name
    ) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
        """The NS record and the addresses of this server."""
        server, nameserver = self._server(zone), self._answers(request).nameserver
        glue = tuple(
            RR(server, address_type(address), self._ttl, address)
            for address in nameserver.external(headless=self._headless)
        )
        return (RR(zone, RRType.NS, self._ttl, server.wire),), glue

    def _server(self, zone: Name) -> Name:
        return Name(_NS1 + self._apex.lower[:-1] + zone.lower)

    def _soa(self, request: Request | None, zone: Name) -> RR:
        hostmaster = Name(_HOSTMASTER + self._apex.lower[:-1] + zone.lower)
        serial = self._answers(request).lookup.store.services.external_serial
        rdata = soa(self._server(zone), hostmaster, serial, 7200, 1800, 86400, self._ttl)
        return RR(zone, RRType.SOA, self._ttl, rdata)

    @staticmethod
    def _finish(request: Request, reply: Reply) -> Reply:
        """Mark a reply as not to be stored in `cache`, and with an SOA record neither in the answer table."""
        if request.dependencies is not None and (
            reply.authority or request.query.qtype == RRType.SOA
        ):
            request.dependencies.mark_uncacheable()
        return reply.replace(fresh=True)
