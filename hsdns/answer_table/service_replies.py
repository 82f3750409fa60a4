"""Replies about Services that compiled code makes, without the chain.

Path: beside step 2; writer.py asks for one when a query is a miss, and when an event has invalidated one.
Rule 1: the chain answers the first query of a form: zone, type, flags, with or without an answer.  Compiled code has to
        make the same reply, octet for octet; else replies of that form are left to the chain.
Rule 2: only in a zone whose names all handlers up to `kubernetes` treat alike, and that has no other zone below it.
Rule 3: it makes addresses, SRV and PTR records of Services with and without a ClusterIP and of their endpoints; all
        else is left to the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hsdns.answer_table.policy import BlockPolicy
from hsdns.chain import BlockChoice
from hsdns.cluster.freshness import versions_of
from hsdns.fastpath import AnswerTable, ServiceReplies, Terms, Versions
from hsdns.wire.iana import RRType
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

Note = Callable[[tuple[bytes, int, int, bool, bool], float], None]


class Form(NamedTuple):
    """What the replies of a form have in common: their terms, and what notes one in a cache.

    `note` takes the key of `cache` and the time in monotonic seconds.
    """

    terms: Terms
    note: Note | None


# The key of a stored reply (recompute.key_of), the counters that it depends on, and the note of its form.
Stored = tuple[bytes, tuple[int, ...], Note | None]


class MadeReplies:
    """Makes replies for the blocks of one listener, which serve `zones`."""

    def __init__(
        self, versions: Versions, blocks: BlockChoice[BlockPolicy], zones: Iterable[Name]
    ) -> None:
        self._versions = versions
        self._blocks = blocks
        self._zones = tuple(zones)
        # A ServiceReplies for each block with a usable zone, None for others.
        self._makers: dict[BlockPolicy, Any] = {}
        # Replaced, never changed: store() is called in two threads.
        self._usable: tuple[Any, ...] = ()

    def store(self, wire: bytes, table: AnswerTable) -> Stored | None:
        """Make the reply to a query and store it; None if the chain has to."""
        for maker in self._usable:
            stored: Stored | None = maker.store(wire, table)
            if stored is not None:
                return stored
        return None

    def lacks(self, policy: BlockPolicy, wire: bytes) -> bool:
        """Whether it could make the reply to a query if its form were known."""
        if policy not in self._makers:
            maker = self._makers[policy] = self._maker(policy)
            self._usable += () if maker is None else (maker,)
        maker = self._makers[policy]
        return maker is not None and maker.lacks(wire)

    def add_form(
        self, policy: BlockPolicy, wire: bytes, reply: Reply, out: bytes, form: Form
    ) -> None:
        """Add the form of a reply of the chain, `out` in octets, whose records are as `kubernetes` made them."""
        maker = self._makers.get(policy)
        if maker is None:
            return
        if reply.answer:
            maker.add_form(wire, out, reply.answer[0].ttl, b"", form.note, form.terms)
        elif len(reply.authority) == 1 and reply.authority[0].rrtype == RRType.SOA:
            soa = reply.authority[0]
            maker.add_form(wire, out, soa.ttl, soa.rdata, form.note, form.terms)

    def _maker(self, policy: BlockPolicy) -> object:
        source = policy.source
        values = source.plain_values() if source is not None else None
        versions = versions_of(self._versions)  # None for those of the twin in Python
        if ServiceReplies is None or versions is None or source is None or values is None:
            return None
        zones = [zone.lower for zone in source.zones if self._is_usable(zone, policy)]
        if not zones:
            return None
        return ServiceReplies(
            values.services,
            values.namespaces,
            values.cluster_ips,
            values.endpoint_ips,
            versions,
            zones,
            values.primary_zone.lower,
        )

    def _is_usable(self, zone: Name, policy: BlockPolicy) -> bool:
        source = policy.source
        found = self._blocks.match(zone, RRType.A)
        if source is None or found is None or found.block is not policy or not zone.labels:
            return False
        others = [each for each in (*self._zones, *source.zones) if each != zone]
        return policy.treats_alike(zone) and not any(each.is_at_or_below(zone) for each in others)
