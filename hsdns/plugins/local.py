"""Answers queries for `localhost` and special reverse zones without an upstream.

Path: step 5, before all other plugins that answer, so that queries for these names reach none of them.
Source: CoreDNS 1.14.7 plugin/local; RFC 6303 section 3, RFC 6761 section 6.3.
Rule 1: the replies are not authoritative, and their TTL is a week.
Cacheable: yes, because only the name decides whether it answers.  Its own replies are not `fresh`, so none is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Next, Request, zones_within
from hsdns.corefile.properties import Property, choice, no_arguments, one, read_properties
from hsdns.corefile.tree import Directive
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire import rdata
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

TTL: Final = 604800  # seconds; plugin/local local.go
LOCALHOST: Final = Name.from_text("localhost.")
_MAILBOX: Final = Name.from_text("root.localhost.")
_LOOPBACK: Final = Name.from_text("1.0.0.127.in-addr.arpa.")
_REVERSE: Final = tuple(Name.from_text(f"{number}.in-addr.arpa.") for number in (0, 127, 255))
_ADDRESSES: Final = {
    RRType.A: rdata.address("127.0.0.1"),
    RRType.AAAA: rdata.address("::1"),
}


class Local(Plugin):
    """Answers queries for localhost and its reverse zones."""

    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "localhost_prefix": Property(one(choice("on", "off")), default="on", syntax="on|off"),
    }

    def __init__(self, *, prefix: bool = True) -> None:
        self._prefix = prefix

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `local { localhost_prefix on|off }`."""
        for directive in directives:
            no_arguments(directive)
        return cls(prefix=read_properties(directives, cls.PROPERTIES)["localhost_prefix"] == "on")

    async def start(self, runtime: Runtime) -> None:
        """Register the metric."""
        self._requests = runtime.metrics.counter("coredns_local_localhost_requests_total")

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return its zones, or None with the prefix on: names of any zone may begin with `localhost`."""
        if self._prefix:
            return None
        return zones_within(zone, (LOCALHOST, *_REVERSE))

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer queries for its own names, and pass on all others."""
        qname, qtype = request.query.qname, request.query.qtype
        is_below = qname != LOCALHOST and qname.is_at_or_below(LOCALHOST)
        is_before = self._prefix and len(qname.labels) > 1 and qname.labels[0] == b"localhost"
        if is_below or is_before:
            self._requests.inc()
            return _address(qname, qtype) or Reply(authority=(_soa(qname),))
        zone = own_zone(qname)
        if zone is None:
            return await next(request)
        if qname == zone:
            return _apex(qname, qtype)
        if qname == _LOOPBACK:
            if qtype == RRType.PTR:
                return Reply(answer=(RR(qname, RRType.PTR, TTL, LOCALHOST.wire),))
            return Reply(authority=(_soa(zone),))
        return Reply(rcode=Rcode.NXDOMAIN, authority=(_soa(zone),))


def own_zone(qname: Name) -> Name | None:
    """Return the zone of this plugin that contains a name, in the letter case of the name."""
    for zone in (LOCALHOST, *_REVERSE):
        if qname.is_at_or_below(zone):
            return Name(qname.wire[len(qname.wire) - len(zone.wire) :])
    return None


def _apex(qname: Name, qtype: int) -> Reply:
    if qname == LOCALHOST:
        found = _address(qname, qtype)
        if found is not None:
            return found
    if qtype == RRType.SOA:
        return Reply(answer=(_soa(qname),))
    if qtype == RRType.NS:
        return Reply(answer=(RR(qname, RRType.NS, TTL, LOCALHOST.wire),))
    return Reply(authority=(_soa(qname),))


def _address(qname: Name, qtype: int) -> Reply | None:
    packed = _ADDRESSES.get(qtype)
    return None if packed is None else Reply(answer=(RR(qname, qtype, TTL, packed),))


def _soa(owner: Name) -> RR:
    return RR(owner, RRType.SOA, TTL, rdata.soa(LOCALHOST, _MAILBOX, 1, 0, 0, 0, TTL))
