"""The two halves of a `cache`, and the classification of replies: which half, whether to store them, and for how long.

Path: plugins/cache calls judge() and its two halves for every reply of the plugins after it.
Source: CoreDNS 1.14.7 plugin/cache cache.go and plugin/pkg/dnsutil/ttl.go; RFC 2308.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hsdns.chain import Request
from hsdns.plugins.cache.store import MIN_TTL, Store
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, Outcome, Query, Reply, is_answered, outcome
from hsdns.wire.name import Name

# Tuples, because the hash of an Enum is a Python call.
_DENIALS: Final = (Outcome.NXDOMAIN, Outcome.NODATA, Outcome.SERVER_ERROR)
_NEVER_STORED: Final = (Outcome.META, Outcome.OTHER_ERROR)
_WITH_TTL: Final = (Outcome.POSITIVE, Outcome.NXDOMAIN, Outcome.NODATA)


class Judgement(NamedTuple):
    """The classification of a reply; `is_positive` is a complete positive answer to its question."""

    kind: Outcome
    is_storable: bool
    is_positive: bool

    @property
    def is_denial(self) -> bool:
        """Whether it belongs to the half `denial`."""
        return self.kind in _DENIALS

    def replaces_stale(self, reply: Reply) -> bool:
        """Whether it replaces a stale entry (RFC 8767 section 4): NOERROR or NXDOMAIN, not truncated."""
        return (
            reply.written
            and not reply.dropped
            and not reply.tc
            and self.kind not in _NEVER_STORED
            and reply.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
        )


def judge(query: Query, reply: Reply, wall: Callable[[], float]) -> Judgement:
    """Classify a reply."""
    kind = outcome(query, reply, wall)
    is_storable = not reply.tc and kind not in _NEVER_STORED
    if reply.still_holds is not None and not reply.fresh:
        is_storable = is_storable and reply.still_holds()  # never for one client subnet
    is_positive = False
    if kind == Outcome.POSITIVE and reply.answer:
        is_positive = is_answered(query, reply.answer)
        if not is_positive:
            # A CNAME chain without data at its end is NODATA (RFC 2308 section 2.2).  Without an SOA record it has no
            # negative TTL (section 5), as NXDOMAIN.
            has_soa = _has_soa(reply)
            kind = Outcome.NODATA if has_soa else kind
            is_storable = is_storable and has_soa
    elif kind == Outcome.NXDOMAIN:
        is_storable = is_storable and _has_soa(reply)
    return Judgement(kind, is_storable, is_positive and not reply.tc)


def ttls(reply: Reply) -> list[int]:
    """The TTLs of all records."""
    return [rr.ttl for rr in (*reply.answer, *reply.authority, *reply.additional)]


@dataclass
class Half:
    """One of the two halves, `success` or `denial`; times in seconds."""

    name: str
    capacity: int
    maximum: int
    floor: int
    failure: int = MIN_TTL  # for SERVFAIL and NOTIMP
    disabled: tuple[Name, ...] = ()
    store: Store = field(init=False)

    def shown_ttl(self, found: Iterable[int], kind: Outcome) -> int:
        """The TTL in seconds for all records of a reply that has these records."""
        if kind is Outcome.SERVER_ERROR:
            return self.failure
        ttl = min(found, default=MIN_TTL) if kind in _WITH_TTL else MIN_TTL
        return min(max(ttl, self.floor), self.maximum)

    def is_disabled(self, name: Name) -> bool:
        """Whether caching is disabled for a name and all names below it."""
        return any(name.is_at_or_below(zone) for zone in self.disabled)

    def mark(self, query: Query, reply: Reply, kind: Outcome) -> tuple[str, int]:
        """The name of this half, and for how many seconds a reply counts as a hit."""
        is_counted = kind not in _NEVER_STORED and not self.is_disabled(query.qname)
        return self.name, self.shown_ttl(ttls(reply), kind) if is_counted else 0


def _has_soa(reply: Reply) -> bool:
    return any(rr.rrtype == RRType.SOA for rr in reply.authority)


def below(request: Request) -> Request:
    """The request to pass on: with AD set, the upstream tells whether the data are authentic (RFC 6840 section 5.7)."""
    query = request.query
    return request.replace(query=query.replace(flags=query.flags | AD))


def for_client(reply: Reply, query: Query) -> Reply:
    """Clear AD for a client that did not ask for it by DO or AD (RFC 6840 sections 5.7 and 5.8)."""
    return reply.replace(ad=False) if reply.ad and not query.do and not query.flags & AD else reply
