"""Which replies of a server block the answer table may store.

Path: beside step 2; made for each block with its chain, asked by writer.py about each reply of the block.
Rule 1: opting in: a block's replies are stored only if every handler is cacheable and one of them is `kubernetes`.
Rule 2: of those only `fresh` replies are stored, whose every dependency has a counter, and only of STORED_TYPES.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.answer_table.capabilities import (
    AnswersFirst,
    AnswerSource,
    Cacheable,
    CountsCacheHits,
    CountsHits,
    LimitsPayload,
    LogsHits,
    RotatesAddresses,
    SharesMemory,
)
from hsdns.chain import Handler
from hsdns.cluster.freshness import Dependencies
from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

# The types that clients ask for, those with a metric label of their own.  HINFO is not among them: `loop` answers it.
STORED_TYPES: Final = frozenset({
    RRType.A, RRType.AAAA, RRType.ANY, RRType.AXFR, RRType.CNAME, RRType.DNSKEY, RRType.DS, RRType.HTTPS, RRType.IXFR,
    RRType.MX, RRType.NS, RRType.NSEC, RRType.NSEC3, RRType.PTR, RRType.RRSIG, RRType.SOA, RRType.SRV, RRType.SVCB,
    RRType.TXT,
})  # fmt: skip


class BlockPolicy:
    """What may be stored of one block; `reason` says why nothing may, "" where replies may be stored."""

    def __init__(self, handlers: Sequence[Handler]) -> None:
        self.source = next((each for each in handlers if isinstance(each, AnswerSource)), None)
        self.counter = next((each for each in handlers if isinstance(each, CountsHits)), None)
        self.cache = next((each for each in handlers if isinstance(each, CountsCacheHits)), None)
        self.log = next((each for each in handlers if isinstance(each, LogsHits)), None)
        self.sharers = tuple(each for each in handlers if isinstance(each, SharesMemory))
        self.rotates_addresses = any(
            each.rotates_addresses for each in handlers if isinstance(each, RotatesAddresses)
        )
        self.max_payload = min(
            (each.max_payload for each in handlers if isinstance(each, LimitsPayload)),
            default=MAX_PAYLOAD_SIZE,
        )
        self._handlers = tuple(handlers)
        self.reason = self._find_reason()

    def may_store(self, query: Query, reply: Reply, dependencies: Dependencies) -> bool:
        """Whether a reply of this block may be stored."""
        return (
            not self.reason
            and reply.fresh
            and dependencies.is_cacheable
            and not reply.tc
            and reply.rd is None
            and reply.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
            and query.qtype in STORED_TYPES
            # The table writes the OPT record itself: as the query's, but for a payload size that is lowered.
            and (reply.edns is None or reply.edns == self.lower_payload(query).edns)
        )

    def lower_payload(self, query: Query) -> Query:
        """The query as the source sees it: its EDNS payload size is at most `max_payload`."""
        edns = query.edns
        if edns is None or edns.payload_size <= self.max_payload:
            return query
        return query.replace(edns=edns.lowered(self.max_payload))

    def names_answered_first(self, zone: Name) -> list[Name] | None:
        """Names in a zone that handlers before the source may answer, or count one by one; None for any name."""
        found: list[Name] = []
        for handler in self._handlers:
            if handler is self.source:
                break
            if isinstance(handler, AnswersFirst):
                names = handler.names_answered_first(zone)
                if names is None:
                    return None
                found += names
        return found

    def _find_reason(self) -> str:
        if self.source is None:
            return "it has no kubernetes plugin"
        must_see = [
            each.name
            for each in self._handlers
            if not (isinstance(each, Cacheable) and each.cacheable)
        ]
        return f"{', '.join(must_see)} must see every query" if must_see else ""
