"""What kind of reply goes into which half of a `cache`, whether it is kept, and for how long.

Path: plugins/cache.py asks judge() and its two halves about every reply from below.
Source: CoreDNS 1.14.7 plugin/cache cache.go and plugin/pkg/dnsutil/ttl.go; RFC 2308.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hsdns.plugins.cache.options import MIN_TTL
from hsdns.plugins.cache.store import Store
from hsdns.wire.alias import is_answered
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.outcome import Outcome, outcome

_DENIALS: Final = frozenset({Outcome.NXDOMAIN, Outcome.NODATA, Outcome.SERVER_ERROR})
_NEVER_KEPT: Final = frozenset({Outcome.META, Outcome.OTHER_ERROR})
_WITH_TTL: Final = frozenset({Outcome.POSITIVE, Outcome.NXDOMAIN, Outcome.NODATA})


class Judgement(NamedTuple):
    """What a reply is to a cache."""

    kind: Outcome
    may_be_kept: bool
    answers: bool  # whether it is a good answer to its question

    @property
    def is_denial(self) -> bool:
        """Whether it goes into the half of what was not found."""
        return self.kind in _DENIALS

    def replaces_stale(self, reply: Reply) -> bool:
        """Whether it is news about a stale entry (RFC 8767 section 4): a whole NOERROR or NXDOMAIN."""
        return (
            reply.written
            and not reply.dropped
            and not reply.tc
            and self.kind not in _NEVER_KEPT
            and reply.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
        )


def judge(query: Query, reply: Reply, wall: Callable[[], float]) -> Judgement:
    """Say what a reply is."""
    kind = outcome(query, reply, wall)
    is_kept = not reply.tc and kind not in _NEVER_KEPT
    answers = False
    if kind == Outcome.POSITIVE and reply.answer:
        answers = is_answered(query, reply.answer)
        if not answers:
            # A CNAME chain without data at its end is NODATA (RFC 2308 section 2.2).  Without an SOA nothing says how
            # long something is not there (section 5), as for NXDOMAIN.
            has_soa = _has_soa(reply)
            kind = Outcome.NODATA if has_soa else kind
            is_kept = is_kept and has_soa
    elif kind == Outcome.NXDOMAIN:
        is_kept = is_kept and _has_soa(reply)
    return Judgement(kind, is_kept, answers and not reply.tc)


def ttls(reply: Reply) -> list[int]:
    """The TTLs of all records."""
    return [
        rr.ttl for section in (reply.answer, reply.authority, reply.additional) for rr in section
    ]


@dataclass
class Half:
    """One of the two halves: what was found (`success`) or what was not (`denial`); times in seconds."""

    name: str
    capacity: int
    maximum: int
    floor: int
    failure: int = MIN_TTL  # how long SERVFAIL and NOTIMP are kept
    disabled: tuple[Name, ...] = ()
    store: Store = field(init=False)

    def shown_ttl(self, reply: Reply, kind: Outcome) -> int:
        """The TTL of all of a reply's records, in seconds."""
        if kind == Outcome.SERVER_ERROR:
            return self.failure
        ttl = MIN_TTL
        if kind in _WITH_TTL:
            ttl = min(ttls(reply), default=MIN_TTL)
        return min(max(ttl, self.floor), self.maximum)

    def is_disabled(self, name: Name) -> bool:
        """Whether nothing is kept for a name and all below it."""
        return any(name.is_at_or_below(zone) for zone in self.disabled)

    def mark(self, query: Query, reply: Reply, kind: Outcome) -> tuple[str, int]:
        """This half's name, and for how many seconds a reply counts as a hit."""
        is_counted = kind not in _NEVER_KEPT and not self.is_disabled(query.qname)
        return self.name, self.shown_ttl(reply, kind) if is_counted else 0


def _has_soa(reply: Reply) -> bool:
    return any(rr.rrtype == RRType.SOA for rr in reply.authority)
