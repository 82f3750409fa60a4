"""Synthesizes AAAA records from A records for networks with NAT64.

Path: step 5, before loadbalance and cache: both see the AAAA query of the client, and the A query that it causes.
Source: CoreDNS 1.14.7 plugin/dns64; RFC 6147 section 5, RFC 6052 section 2.2.
Rule 1: if an AAAA query has no address in its answer and the name exists, A is resolved through the whole server.
Cacheable: only with `allow_ipv4`; otherwise it depends on the client's address family.  Synthesized replies are not
        `fresh`, so they are not stored in the answer table; replies that it leaves unchanged depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from ipaddress import IPv6Network
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property, first, flag, read_properties
from hsdns.corefile.tree import Directive, Token
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import Rcode, RRClass, RRType
from hsdns.wire.message import RR, Reply

WELL_KNOWN: Final = IPv6Network("64:ff9b::/96")  # RFC 6052 section 2.1
MAX_TTL: Final = 600  # seconds, if the AAAA reply has no SOA record (RFC 6147 section 5.1.7)


def read_prefix(token: Token) -> IPv6Network:
    """Parse a prefix of 32 to 96 bits, in whole octets."""
    try:
        if "/" not in token.text:
            raise ValueError
        prefix = IPv6Network(token.text, strict=False)
    except ValueError:
        raise token.error(f'"{token.text}" is not an IPv6 prefix such as "{WELL_KNOWN}"') from None
    if prefix.prefixlen % 8 or not 32 <= prefix.prefixlen <= 96:
        raise token.error(
            f"a prefix of {prefix.prefixlen} bits is not allowed; allowed are 32, 40, 48, 56, 64, 72, 80, 88 and 96"
        )
    return prefix


def _read_misread_body(directive: Directive, warn: Callable[[str], None]) -> IPv6Network | None:
    """The prefix of a body after a prefix on the directive's line; raise CorefileError.

    CoreDNS reads each line of it as another `dns64`: its name has no effect, and its argument is a prefix.
    """
    prefix, before = None, directive.args[0].position
    for line in directive.lines:
        if len(line.args) > 1 or line.name.position[:2] == before[:2]:
            raise line.error(
                f'CoreDNS reads no properties of dns64 after a prefix on its line; write it as "prefix '
                f'{directive.args[0].text}" in the body'
            )
        if line.args:
            prefix = read_prefix(line.args[0])
        elif line.name.text != "prefix":
            warn(
                f'{line.name.position}: "{line.name.text}" has no effect, as in CoreDNS 1.14.7, since the prefix is '
                f'on the line of dns64; write "prefix {directive.args[0].text}" in the body'
            )
    return prefix


@dataclass(eq=False)
class Dns64(Plugin):
    """Synthesizes AAAA records."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "prefix": first(read_prefix, "PREFIX"),
        "translate_all": Property(flag, default=False, reads=0, stops=True),
        "allow_ipv4": Property(flag, default=False, reads=0, stops=True),
    }

    prefix: IPv6Network = WELL_KNOWN
    _: KW_ONLY
    translate_all: bool = False
    allow_ipv4: bool = False

    def __post_init__(self) -> None:
        self.cacheable = self.allow_ipv4

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse `dns64 [PREFIX] {...}`."""
        prefix = WELL_KNOWN
        for directive in directives:
            if len(directive.args) > 1:
                raise directive.args[1].error(
                    f"dns64 takes at most one prefix, found {len(directive.args)} arguments"
                )
            if directive.args:
                prefix = read_prefix(directive.args[0])
                prefix = _read_misread_body(directive, block.warn) or prefix
        options = read_properties([each for each in directives if not each.args], cls.PROPERTIES)
        return cls(
            options["prefix"] or prefix,
            translate_all=options["translate_all"],
            allow_ipv4=options["allow_ipv4"],
        )

    async def start(self, runtime: Runtime) -> None:
        """Keep the runtime, which resolves names, and create the metric."""
        self._runtime = runtime
        self._translated = runtime.metrics.counter(
            "coredns_dns64_requests_translated_total", ("server",)
        )

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass on; if an AAAA query has no answer, synthesize one from A records."""
        query = request.query
        is_asked = query.qtype == RRType.AAAA and query.qclass == RRClass.IN
        reply = await next(request)
        if not is_asked or not (self.allow_ipv4 or ":" in request.client.address):
            return reply
        if not reply.written or reply.dropped or not self._needs_synthesis(reply):
            return reply
        found = await self._runtime.resolve(request.nested(query.qname.lowered(), RRType.A))
        self._translated.inc((request.server,))
        return self._synthesize(reply, found)

    def _needs_synthesis(self, reply: Reply) -> bool:
        if reply.rcode == Rcode.NXDOMAIN and not reply.answer:
            return False
        return self.translate_all or all(rr.rrtype != RRType.AAAA for rr in reply.answer)

    def _synthesize(self, reply: Reply, found: Reply) -> Reply:
        """The reply to the A query with its addresses embedded in the prefix; the rcode is NOERROR, as in CoreDNS."""
        limit = min((rr.ttl for rr in reply.authority if rr.rrtype == RRType.SOA), default=MAX_TTL)

        def embedded(rr: RR) -> RR:
            if rr.rrtype != RRType.A:
                return rr
            rdata = embed(self.prefix, rr.rdata)
            return rr._replace(rrtype=RRType.AAAA, ttl=min(rr.ttl, limit), rdata=rdata)

        answer = tuple(map(embedded, found.answer))
        return Reply(
            answer=answer, authority=found.authority, additional=found.additional, tc=found.tc
        )


def embed(prefix: IPv6Network, address: bytes) -> bytes:
    """Embed an IPv4 address in a prefix; octet 8 stays zero (RFC 6052 section 2.2)."""
    length = prefix.prefixlen // 8
    packed = prefix.network_address.packed[:length] + address
    if length <= 8:
        packed = packed[:8] + b"\0" + packed[8:]
    return packed.ljust(16, b"\0")
