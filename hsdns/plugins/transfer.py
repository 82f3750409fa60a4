"""Serves zone transfers and sends NOTIFY messages to secondaries.

Path: step 5, before the plugins whose zones it transfers: `kubernetes`, `file`, `auto`, `secondary` (Transferer).
Source: CoreDNS 1.14.7 plugin/transfer; RFC 5936, RFC 1995 section 4, RFC 1996.
Rule 1: transfers are available only over TCP and only to the addresses of `to`; all other clients get REFUSED.
Rule 2: IXFR with the current serial is answered with the SOA record, with any other serial like AXFR.
Cacheable: yes.  Its own replies are not `fresh`, so they are never stored; all others pass unchanged.

Addresses of primaries and secondaries:
Source: CoreDNS 1.14.7 plugin/pkg/parse host.go HostPort.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
    runtime_checkable,
)

from hsdns.authority.file_zone import FileZone
from hsdns.authority.lookup import answer, longest
from hsdns.authority.outgoing import ZoneTransfer, batches, client_serial
from hsdns.authority.secondary_zone import SecondaryZone
from hsdns.authority.transfer import send_notify
from hsdns.authority.zone import Zone, serial_of
from hsdns.chain import Endpoint, Handler, Next, Request
from hsdns.corefile.keys import HostPort, read_ip, split_ip_port, zones_from_args
from hsdns.corefile.properties import Property, many, one, read_properties
from hsdns.corefile.tree import Directive, Token
from hsdns.plugin import Block, Plugin, catch_up
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, is_notify, unwritten
from hsdns.wire.name import Name

ANYBODY = Endpoint("*", 0)
Z = TypeVar("Z", bound=FileZone | SecondaryZone)
log = logging.getLogger("hsdns.plugin.transfer")
DNS_PORT: Final = 53


def read_endpoint(token: Token) -> Endpoint:
    """Parse `IP`, `IP:PORT` or `[IPV6]:PORT`, with default port 53; raise CorefileError."""
    found = split_ip_port(token.text, DNS_PORT)
    if found is None:
        raise token.error(
            f'"{token.text}" is not an IP address; write it as 192.0.2.1, 192.0.2.1:5300 or [2001:db8::1]:5300'
        )
    return Endpoint(*found)


def is_from(client: Endpoint, addresses: list[str]) -> bool:
    """Whether a client has one of these addresses; the zone of a link-local address is ignored."""
    host = client.address.partition("%")[0]
    return any(host == address.partition("%")[0] for address in addresses)


def _read_secondary(token: Token) -> Endpoint:
    """Read an address, or `*` for any."""
    return ANYBODY if token.text == "*" else read_endpoint(token)


class Secondaries(NamedTuple):
    """One directive: zones, the secondaries that may transfer them, and the source address of NOTIFY."""

    zones: tuple[Name, ...]
    to: tuple[Endpoint, ...]
    source: str | None

    def allow(self, client: Endpoint) -> bool:
        """Whether a client may transfer the zones."""
        return ANYBODY in self.to or is_from(client, [each.address for each in self.to])


@runtime_checkable
class Transferer(Protocol):
    """A plugin whose zones can be transferred (CoreDNS: Transferer)."""

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All records of a zone; None if there is no such zone, LookupError if it has not been loaded yet."""


class Transfer(Plugin):
    """Answers AXFR and IXFR."""

    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "to": Property(many(_read_secondary), syntax="ADDRESS...", repeat="extend"),
        "source": Property(one(read_ip), syntax="ADDRESS", repeat="once"),
    }

    def __init__(self, secondaries: Sequence[Secondaries]) -> None:
        self._secondaries = tuple(secondaries)
        self._transferers: tuple[Transferer, ...] = ()

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read each `transfer [ZONE...]`."""
        found = []
        for directive in directives:
            options = read_properties([directive], cls.PROPERTIES)
            if not options["to"]:
                raise directive.error(
                    'transfer needs "to" with the addresses of secondaries, or "to *" for any client'
                )
            zones = zones_from_args(directive.args) or block.zones
            found.append(Secondaries(zones, tuple(options["to"]), options["source"]))
        return cls(found)

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the handlers that have zones."""
        self._transferers = tuple(each for each in handlers if isinstance(each, Transferer))

    def notify(self, zone: Name) -> None:
        """Send a NOTIFY for a zone to all its secondaries; failures are logged."""
        chosen = self._secondaries_of(zone)
        if chosen is None:
            return
        for secondary in dict.fromkeys(chosen.to):
            if secondary != ANYBODY:
                self._runtime.spawn(
                    self._notify(zone, secondary, chosen.source),
                    f"NOTIFY {zone.to_text()} to {HostPort(*secondary)}",
                )

    async def _notify(self, zone: Name, secondary: Endpoint, source: str | None) -> None:
        reason = await send_notify(zone, secondary, source)
        if reason is not None:
            log.warning("plugin/transfer: Failed sending notifies: %s", reason)
        else:
            log.debug(
                "plugin/transfer: Sent notify for zone %s to %s",
                zone.to_text(),
                HostPort(*secondary),
            )

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer AXFR and IXFR, and pass on all other queries."""
        query = request.query
        if query.qtype not in (RRType.AXFR, RRType.IXFR):
            return await next(request)
        if request.protocol != "tcp":
            return unwritten(Rcode.REFUSED)
        chosen = self._secondaries_of(query.qname)
        if chosen is None:
            return await next(request)
        if not chosen.allow(request.client):
            return Reply(rcode=Rcode.REFUSED)
        serial = None
        if query.qtype == RRType.IXFR:
            serial = client_serial(query)
            if serial is None:
                return unwritten(Rcode.SERVFAIL)
        await catch_up(self._runtime, request.now)
        try:
            outgoing = self._find(query.qname.lowered())
        except LookupError as error:
            return unwritten(Rcode.SERVFAIL, str(error))
        if outgoing is None:
            return await next(request)
        if serial and serial == serial_of(outgoing.soa):
            log.info(
                'plugin/transfer: Outgoing noop, incremental transfer for up to date zone "%s" to %s for %d SOA serial',
                query.qname.to_text(),
                request.client.address,
                serial,
            )
            return Reply(answer=(outgoing.soa,))
        return in_messages(self._logged_batches(outgoing, request))

    def _secondaries_of(self, name: Name) -> Secondaries | None:
        """Return the directive with the longest zone that contains a name; of several, the first."""
        zones = {zone: each for each in reversed(self._secondaries) for zone in each.zones}
        longest = name.longest_of(zones)
        return None if longest is None else zones[longest]

    def _find(self, zone: Name) -> ZoneTransfer | None:
        found = (each.transfer(zone) for each in self._transferers)
        return next((each for each in found if each is not None), None)

    @staticmethod
    def _logged_batches(outgoing: ZoneTransfer, request: Request) -> Iterator[tuple[RR, ...]]:
        """Yield the batches of a transfer, and log it after the last one."""
        count = 0
        for batch in batches(outgoing):
            count += len(batch)
            yield batch
        log.info(
            'plugin/transfer: Outgoing transfer of %d records of zone "%s" to %s for %d SOA serial',
            count,
            request.query.qname.to_text(),
            request.client.address,
            serial_of(outgoing.soa),
        )


class ZonePlugin(Plugin, Generic[Z]):
    """A plugin that answers from zones of its own, by origin: `file`, `auto` and `secondary`."""

    cacheable = True
    not_loaded: ClassVar[str] = "has not been read yet"

    def __init__(self, zones: dict[Name, Z], through: tuple[Name, ...] = ()) -> None:
        """Take the zones, and the zones whose names without records fall through."""
        self.zones = zones
        self._through = through
        self._is_last = False
        self._transfer: Transfer | None = None

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find `transfer`, and whether another handler follows."""
        self._is_last = handlers[-1] is self
        self._transfer = next((each for each in handlers if isinstance(each, Transfer)), None)

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """Return all records of a zone; raise LookupError before they are loaded."""
        found = self.zones.get(zone)
        if found is None:
            return None
        if found.current is None:
            raise LookupError(f"zone {zone.to_text()} {self.not_loaded}")
        return ZoneTransfer(found.current.soa, found.current.records())

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the longest zone that contains the name."""
        query = request.query
        origin = longest(query.qname, self.zones)
        if origin is None:
            return unwritten(Rcode.REFUSED) if self._is_last else await next(request)
        if query.qtype in (RRType.AXFR, RRType.IXFR):
            return unwritten(Rcode.REFUSED)
        found = self.zones[origin]
        if is_notify(query) and (acknowledgement := self._receive_notify(found, request.client)):
            return acknowledgement
        zone = self._usable(found, request.now)
        if zone is None:
            return unwritten(Rcode.SERVFAIL)
        reply, is_unknown = await answer(zone, request, self._runtime.resolve)
        if is_unknown and any(query.qname.is_at_or_below(each) for each in self._through):
            return await next(request)
        return reply

    def _notify(self, zone: Name) -> None:
        if self._transfer is not None:
            self._transfer.notify(zone)

    def _receive_notify(self, zone: Z, client: Endpoint) -> Reply | None:
        """Return the reply to a NOTIFY, None if it is answered like any query."""
        return None

    def _usable(self, zone: Z, now: float) -> Zone | None:
        """Return the records to answer from, None for SERVFAIL."""
        return zone.current


def in_messages(batches: Iterator[tuple[RR, ...]]) -> Reply:
    """Return a reply with one message per batch."""
    first, second = next(batches), next(batches, None)
    following = None if second is None else chain((second,), batches)
    return Reply(answer=first, aa=True, following=following)
