"""Signs replies on the fly, for clients that set DO.

Path: step 5, after `cache`, which keeps signed replies for those who ask with DO, before all sources;
authority/signing.py has the keys and makes the signatures.
Source: CoreDNS 1.14.7 plugin/dnssec; RFC 4034, RFC 4035, RFC 4470 (minimally covering NSEC records, one for each name
that is asked), which turns NXDOMAIN into NODATA.
Rule 1: signatures are kept by their RRset, and made anew when a quarter of their life is left.
Rule 2: what an alias leads to and does not exist is denied as well; what is outside of the zones is not signed.
Cacheable: no, because the replies to clients with DO have signatures that expire, and the answer table keeps what
follows from the cluster until that changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, first, integer, only_once, read_properties
from hsdns.corefile.tree import Directive, Line
from hsdns.plugin import Block, Plugin, Runtime, extra
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Outcome, Query, Reply, follow, is_answered, outcome
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.authority.signing import SigningKey

DAY: Final = 86_400  # seconds
LIFE: Final = 8 * DAY
EARLIER: Final = 3 * 3600  # seconds: a client's clock may be behind
RENEWED: Final = 2 * DAY  # before they expire
ORIGINAL_TTL: Final = 3600  # seconds, of all RRsets, since the TTLs of cached ones have decreased
CAPACITY: Final = 10_000  # RRsets
MIN_CAPACITY: Final = 1024  # CoreDNS has 256 shards of 4 at least
# The types that each name seems to have but for the one that is asked (types without a name here: RFC 4398 CERT, 4255
# SSHFP, 6698 TLSA, 8005 HIP, 7929 OPENPGPKEY, 7208 SPF).
_NEGATIVE: Final = frozenset({Outcome.NXDOMAIN, Outcome.NODATA})
_RCODES: Final = frozenset({Rcode.NOERROR, Rcode.NXDOMAIN})
_NAME: Final = (1, 13, 16, 28, 29, 33, 37, 44, 46, 47, 52, 55, 61, 99)
_CUT: Final = (*_NAME, RRType.NS)
_APEX: Final = (*_CUT, RRType.SOA, RRType.MX, RRType.DNSKEY)


def _paths(line: Line) -> Line:
    """Read `file KEY...`; the files are opened where the folder of the block is known."""
    if line.args[:1] and line.args[0].text == "aws_secretsmanager":
        raise line.error(
            "hsdns reads no keys of AWS Secrets Manager; mount them, and write key file"
        )
    if len(line.args) < 2 or line.args[0].text != "file":
        raise line.error(
            '"key" takes "file" and the names of keys, for example key file Kexample.org'
        )
    return line


def read_keys(lines: Iterable[Line], block: Block) -> tuple[SigningKey, ...]:
    """Read the files of `key file KEY...`; raise CorefileError."""
    from hsdns.authority.signing import read_key  # noqa: PLC0415 - of an extra

    found = []
    for token in (token for line in lines for token in line.args[1:]):
        try:
            found.append(token.parse(lambda name: read_key(block.path(name))))
        except OSError as error:
            raise token.error(f"cannot read {error.filename}: {error.strerror}") from None
    return tuple(found)


KEY: Final = Property(_paths, syntax="file KEY...", repeat="collect")


class Dnssec(Plugin):
    """Signs replies."""

    cacheable = False
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "key": KEY,
        "cache_capacity": first(integer(0), "CAPACITY", CAPACITY),
    }

    def __init__(
        self, zones: tuple[Name, ...], keys: tuple[SigningKey, ...], capacity: int = CAPACITY
    ) -> None:
        """Take the zones, the keys, and the number of RRsets whose signatures are kept."""
        self.zones, self.keys = zones, keys
        self.capacity = max(capacity, MIN_CAPACITY)
        splits = any(key.is_ksk for key in keys) and any(key.is_zsk for key in keys)
        self._ksks = [key for key in keys if key.is_ksk] if splits else keys
        self._zsks = [key for key in keys if key.is_zsk] if splits else keys
        # By RRset and signer: when they are to be made anew, in seconds since the epoch, and their RDATA.
        self._kept: dict[tuple[object, ...], tuple[float, list[bytes]]] = {}

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `dnssec [ZONES...]` and the files of its keys."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES)
        zones = zones_from_args(directive.args) or block.zones
        with extra("dnssec", directive):
            keys = read_keys(options["key"], block)
        for key in keys:
            if not any(zone.is_at_or_below(key.owner) for zone in zones):
                raise directive.error(
                    f"key {key.tag} of {key.owner.to_text()} can sign none of the zones "
                    f"{', '.join(zone.to_text() for zone in zones)}"
                )
        if not keys:
            block.warn(f"{directive.name.position}: dnssec has no key, so it signs nothing")
        return cls(zones, keys, options["cache_capacity"])

    async def start(self, runtime: Runtime) -> None:
        """Keep the runtime for its wall clock, and create the metrics."""
        from hsdns.authority import signing  # noqa: PLC0415 - of an extra

        await super().start(runtime)
        self._signing = signing
        metrics = runtime.metrics
        self._entries = metrics.gauge("coredns_dnssec_cache_entries", ("server", "type"))
        self._hits = metrics.counter("coredns_dnssec_cache_hits_total", ("server",))
        self._misses = metrics.counter("coredns_dnssec_cache_misses_total", ("server",))

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer for the keys, and sign the replies to all other queries with DO."""
        query = request.query
        zone = query.qname.longest_of(self.zones) if self.keys else None
        if zone is None:
            return await next(request)
        if query.qtype == RRType.DNSKEY and query.qname == zone:
            keys = [key.record(zone) for key in self.keys]
            signatures = self._signed(request, keys, zone) if query.do else ()
            return Reply(answer=(*keys, *signatures), aa=True)
        reply = await next(request)
        if not query.do or not reply.written or reply.dropped:
            return reply
        return self._sign(request, zone, reply)

    def _sign(self, request: Request, zone: Name, reply: Reply) -> Reply:
        query, authority = request.query, reply.authority
        kind = outcome(query, reply, self._runtime.wall)
        if kind is Outcome.META:
            return reply
        if kind is Outcome.DELEGATION:
            keys = [rr for rr in authority if rr.rrtype == RRType.DS]
            cut, ttl = authority[0].owner, authority[0].ttl
            proof = (
                self._signed(request, keys, zone)
                if keys
                else self._denied(request, cut, zone, ttl, is_cut=True)
            )
            return reply.replace(authority=(*authority, *proof))
        name = _denied_name(query, reply)
        within = None if name is None else name.longest_of(self.zones)
        if name is None or within is None:
            if kind in _NEGATIVE:
                return reply
            return reply.replace(
                answer=self._with_signatures(request, reply.answer),
                authority=self._with_signatures(request, authority),
                additional=self._with_signatures(request, reply.additional),
            )
        answer = self._with_signatures(request, reply.answer)
        proof = self._denied(request, name, within, authority[0].ttl)
        if query.qtype == RRType.NSEC:
            return reply.replace(rcode=Rcode.NOERROR, answer=(*answer, *proof), authority=())
        signatures = self._signed(request, authority, within)
        return reply.replace(
            rcode=Rcode.NOERROR, answer=answer, authority=(*authority, *signatures, *proof)
        )

    def _denied(
        self, request: Request, name: Name, zone: Name, ttl: int, *, is_cut: bool = False
    ) -> tuple[RR, ...]:
        """The signed NSEC record that says that a name has no records of the type, or a zone cut no keys."""
        qtype, labels = request.query.qtype, name.labels
        types: Iterable[int] = (
            _APEX if name == zone else _CUT if is_cut or qtype == RRType.DS else _NAME
        )
        if not is_cut and qtype != RRType.NSEC:
            types = (each for each in types if each != qtype)
        following = (labels[0] + b"\0", *labels[1:]) if is_cut else (b"\0", *labels)
        try:
            rdata = Name.from_labels(following).wire + _bitmap(types)
        except ValueError:  # the name is too long for one after it
            return ()
        record = RR(name, RRType.NSEC, ttl, rdata)
        return (*self._signed(request, (record,), zone), record)

    def _with_signatures(self, request: Request, section: Sequence[RR]) -> tuple[RR, ...]:
        """A section, with signatures of the RRsets that are in a zone."""
        found: dict[tuple[Name, int], list[RR]] = {}
        for rr in section:
            if rr.rrtype not in (RRType.RRSIG, RRType.OPT):
                found.setdefault((rr.owner, rr.rrtype), []).append(rr)
        signatures: list[RR] = []
        for (owner, _), records in found.items():
            zone = owner.longest_of(self.zones)
            if zone is not None:
                signatures += self._signed(request, records, zone)
        return (*section, *signatures)

    def _signed(self, request: Request, records: Sequence[RR], zone: Name) -> list[RR]:
        """The signatures of an RRset, which is not empty."""
        first, now, labels = records[0], self._runtime.wall(), (request.server,)
        rdata = frozenset(rr.rdata for rr in records)
        key = zone, first.owner, first.rrtype, first.rrclass, rdata
        until, made = self._kept.get(key, (0.0, []))
        if now < until:
            self._hits.inc(labels)
        else:
            self._misses.inc(labels)
            validity = int(now - EARLIER), int(now + LIFE)
            keys = self._ksks if first.rrtype == RRType.DNSKEY else self._zsks
            made = self._signing.sign(records, ORIGINAL_TTL, zone, keys, validity)
            self._kept.pop(key, None)
            if len(self._kept) >= self.capacity:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = now + LIFE - RENEWED, made
            self._entries.set(len(self._kept), (request.server, "signature"))
        return [RR(first.owner, RRType.RRSIG, first.ttl, each, first.rrclass) for each in made]


def _denied_name(query: Query, reply: Reply) -> Name | None:
    """The name that a reply says has no records, at the end of an alias if there is one; None for a positive reply."""
    if [rr.rrtype for rr in reply.authority] != [RRType.SOA] or reply.rcode not in _RCODES:
        return None
    if not reply.answer:
        return query.qname
    end = follow(reply.answer, query.qname.lower)
    return None if end is None or is_answered(query, reply.answer) else Name(end)


def _bitmap(types: Iterable[int]) -> bytes:
    """The types below 256 in the form of NSEC records (RFC 4034 section 4.1.2)."""
    bits = bytearray(32)
    for each in types:
        bits[each // 8] |= 0x80 >> each % 8
    found = bytes(bits).rstrip(b"\0")
    return bytes((0, len(found))) + found
