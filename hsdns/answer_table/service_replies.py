"""Replies about Services that compiled code makes, without the chain.

Path: beside step 2; writer.py asks for one when a query is a miss, and when an event has invalidated one.
Rule 1: the chain answers the first query of a form: zone, type, flags, with or without an answer.  Compiled code has to
        make the same reply, octet for octet; else replies of that form are left to the chain.
Rule 2: only in a zone whose names all handlers up to `kubernetes` treat alike, and that has no other zone below it.
Rule 3: it makes addresses, SRV and PTR records of Services with and without a ClusterIP and of their endpoints; all
        else is left to the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from hsdns.answer_table.policy import BlockPolicy
from hsdns.block_choice import BlockChoice
from hsdns.cluster.freshness import versions_of
from hsdns.fastpath import ServiceReplies, Versions
from hsdns.wire.iana import RRType
from hsdns.wire.message import Reply
from hsdns.wire.name import Name


class Form(NamedTuple):
    """What the replies of a form have in common: arguments of AnswerTable.store(), and what notes one in a cache.

    `note` takes the key of `cache` and the time in monotonic seconds.
    """

    terms: Mapping[str, Any]
    note: Callable[[tuple[bytes, int, int, bool, bool], float], None] | None


class Made(NamedTuple):
    """A reply: its key (recompute.key_of), octets, counters with their values, octets without compression, and form."""

    key: bytes
    reply: bytes
    pairs: list[tuple[int, int]]
    size: int
    form: Form

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters without their values."""
        return tuple([index for index, _ in self.pairs])


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
        # Replaced, never changed: make() is called in two threads.
        self._usable: tuple[Any, ...] = ()

    def make(self, wire: bytes) -> Made | None:
        """Make the reply to a query; None if the chain has to."""
        for maker in self._usable:
            made = maker.make(wire)
            if made is not None:
                return Made(*made)
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
            maker.add_form(wire, out, reply.answer[0].ttl, b"", form)
        elif len(reply.authority) == 1 and reply.authority[0].rrtype == RRType.SOA:
            maker.add_form(wire, out, reply.authority[0].ttl, reply.authority[0].rdata, form)

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
