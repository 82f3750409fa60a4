"""Which replies of a server block the answer table may store.

Path: beside step 2; created for each block with its chain, used by writer.py for each reply of the block.
Rule 1: storing is opt-in: `fresh` replies of a block, whose every dependency has a counter, are stored only if every
        handler is cacheable and one of them is `kubernetes`.
Rule 2: replies from entries of `cache` are stored, until they expire, if every handler before `cache` is cacheable;
        such queries do not reach the handlers after it.
Rule 3: only replies to queries of STORED_TYPES are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from hsdns.answer_table.capabilities import (
    AnswersFirst,
    AnswerSource,
    Cacheable,
    CountsCacheHits,
    CountsHits,
    Forwards,
    LogsHits,
    StoresForwarded,
    Storing,
    TreatsAlike,
)
from hsdns.answer_table.recompute import link_recompute, skips_recompute
from hsdns.chain import Handler, RequestFilter, all_names, has
from hsdns.cluster.freshness import Dependencies
from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.iana import ADDRESSES, Rcode, RRType
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

# The types that clients query, which have their own metric label.  HINFO is not among them: `loop` answers it.
STORED_TYPES: Final = frozenset({
    RRType.A, RRType.AAAA, RRType.ANY, RRType.AXFR, RRType.CNAME, RRType.DNSKEY, RRType.DS, RRType.HTTPS, RRType.IXFR,
    RRType.MX, RRType.NS, RRType.NSEC, RRType.NSEC3, RRType.PTR, RRType.RRSIG, RRType.SOA, RRType.SRV, RRType.SVCB,
    RRType.TXT,
})  # fmt: skip


_RCODES: Final = frozenset({Rcode.NOERROR, Rcode.NXDOMAIN})
_CACHED_RCODES: Final = _RCODES | {Rcode.SERVFAIL, Rcode.NOTIMP}


class BlockPolicy:
    """Decides which replies of one block may be stored.

    `reason` says why no reply about the cluster may be stored, "" if they may; `stores_cached` says whether replies of
    `cache` may be stored, `stores_any` whether any reply may.
    """

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.source = next((each for each in handlers if has(each, AnswerSource)), None)
        self.counter = next((each for each in handlers if has(each, CountsHits)), None)
        self.cache = next((each for each in handlers if has(each, CountsCacheHits)), None)
        self.log = next((each for each in handlers if has(each, LogsHits)), None)
        self.rotates_addresses = any(getattr(each, "rotates_addresses", False) for each in handlers)
        self.max_payload: int = min(
            (getattr(each, "max_payload", MAX_PAYLOAD_SIZE) for each in handlers),
            default=MAX_PAYLOAD_SIZE,
        )
        self._handlers = tuple(handlers)
        self.reason = self._find_reason()
        self.stores_cached = self._may_store_cached()
        self.stores_any = self.stores_cached or not self.reason
        # The chain that recomputes its replies, None if only a query can.
        self.recompute_chain = None if self.reason else link_recompute(self._handlers, self.source)

    def may_store(self, query: Query, reply: Reply, dependencies: Dependencies) -> bool:
        """Whether a reply of this block may be stored."""
        if dependencies.cached is not None:
            may_store = self.stores_cached and self._is_storable_cached(query, reply)
        else:
            may_store = not self.reason and reply.fresh and reply.rcode in _RCODES
        return (
            may_store
            and dependencies.is_cacheable
            and not reply.tc
            and reply.rd is None
            and query.qtype in STORED_TYPES
            # The table writes the OPT record itself: the query's, with a lowered payload size.
            and (reply.edns is None or reply.edns == self.lower_payload(query).edns)
        )

    def lower_payload(self, query: Query) -> Query:
        """Return the query as the source sees it, with an EDNS payload size of at most `max_payload`."""
        edns = query.edns
        if edns is None or edns.payload_size <= self.max_payload:
            return query
        return query.replace(edns=edns.lowered(self.max_payload))

    def treats_alike(self, zone: Name) -> bool:
        """Whether the replies to recompute of two names in a zone differ in their records only."""
        if self.recompute_chain is None:
            return False
        before = takewhile(lambda each: each is not self.source, self._handlers)
        return all(
            skips_recompute(each) or (has(each, TreatsAlike) and each.treats_alike(zone))
            for each in before
        )

    def forwarding(self, zone: Name) -> tuple[Forwards, Storing] | None:
        """What compiled code may forward the names of a zone with, and how it stores the replies."""
        if not all(getattr(each, "skips_forwarded", False) for each in self._handlers):
            return None
        forward = next((each for each in self._handlers if has(each, Forwards)), None)
        cache = next((each for each in self._handlers if has(each, StoresForwarded)), None)
        if forward is None or cache is None or forward is not self._handlers[-1]:
            return None
        storing = cache.storing(zone)
        return None if storing is None else (forward, storing)

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Names in a zone that handlers before the source may answer, or count individually; None for any name."""
        before = takewhile(lambda each: each is not self.source, self._handlers)
        return all_names(
            each.names_answered_first(zone) for each in before if has(each, AnswersFirst)
        )

    def _is_storable_cached(self, query: Query, reply: Reply) -> bool:
        """Whether a hit is equivalent to an answer of the chain, in the order of records and the class for `log`."""
        if reply.rcode not in _CACHED_RCODES:
            return False
        if self.rotates_addresses and not _rotates_at_most_addresses(reply):
            return False
        if self.log is None:
            return True
        # `log` classifies hits by rcode and number of answers only.
        has_signature = query.do and any(
            rr.rrtype == RRType.RRSIG
            for section in (reply.answer, reply.authority, reply.additional)
            for rr in section
        )
        is_plain = bool(
            reply.answer
            or reply.rcode != Rcode.NOERROR
            or any(rr.rrtype == RRType.SOA for rr in reply.authority)
        )
        return is_plain and not has_signature

    def _may_store_cached(self) -> bool:
        if self.cache is None:
            return False
        at = next(at for at, each in enumerate(self._handlers) if each is self.cache)
        filters = [each for each in self._handlers[at:] if has(each, RequestFilter)]
        return all(map(_is_cacheable, (*self._handlers[:at], *filters)))

    def _find_reason(self) -> str:
        if self.source is None:
            return "it has no kubernetes plugin"
        must_see = [each.name for each in self._handlers if not _is_cacheable(each)]
        return f"{', '.join(must_see)} must see every query" if must_see else ""


def _is_cacheable(handler: object) -> bool:
    return has(handler, Cacheable) and handler.cacheable


def _rotates_at_most_addresses(reply: Reply) -> bool:
    """Whether the table can reorder the answer as `loadbalance` does: it has addresses of one name and type only."""
    if reply.rcode != Rcode.NOERROR:
        return True
    addresses = [(rr.owner, rr.rrtype) for rr in reply.answer if rr.rrtype in ADDRESSES]
    exchanges = sum(rr.rrtype == RRType.MX for rr in reply.answer)
    return exchanges < 2 and len(set(addresses)) <= 1
