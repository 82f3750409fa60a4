"""Zones in which names that cannot exist are answered from one template, without the chain.

Path: beside step 2; writer.py creates them with the table and passes their first NXDOMAIN to store_template().
Rule 1: a negative zone is a forward zone of `kubernetes` without `fallthrough` for it.  Its exclusions are the zones of
        other blocks and plugins and the names that handlers before `kubernetes` answer first.
Rule 2: if `cache` would store each such name, and count it individually, there is no negative zone: these names are
        stored individually, like others.
Rule 3: if the source explains its replies, only queries without EDNS are answered from the template, because a name can
        be missing for several reasons.

Names without number, above all those of Pods, whose replies are made, or stored when they are queried again: writer.py
asks before it stores a reply whose like is without number, about an address of a Pod, or a topology zone that no
endpoint is in.
Rule 4: the table makes the replies about Pods in a negative zone whose source has all names of Pods, and those without
        records about topology zones, each type from one reply of the chain, unless `cache` would store them: it counts
        each of them by itself.
Rule 5: elsewhere the first reply to a name is not stored, because that costs more than making another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hsdns.answer_table.capabilities import AnswerSource
from hsdns.answer_table.hits import HitGroups
from hsdns.answer_table.policy import BlockPolicy
from hsdns.chain import BlockChoice
from hsdns.cluster.address import REVERSE_ZONES
from hsdns.cluster.schema import POD
from hsdns.fastpath import AnswerTable
from hsdns.wire.encode import reply_size
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

# Types for which every name that does not exist is NXDOMAIN (CoreDNS has exceptions for others).
NEGATIVE_TYPES: Final = (
    RRType.A, RRType.AAAA, RRType.CNAME, RRType.HTTPS, RRType.MX, RRType.NS, RRType.PTR, RRType.SRV, RRType.SVCB,
    RRType.TXT,
)  # fmt: skip
_SLOTS: Final = 8192


class NegativeZone(NamedTuple):
    """A zone of `kubernetes` in the server block of the zone `block`; `number` is its number in the table."""

    zone: Name
    block: Name
    number: int
    exclusions: tuple[Name, ...]  # names at or below them are left to the chain

    def covers(self, qname: Name) -> bool:
        """Whether the template answers a name, if the name does not exist."""
        return (
            qname.is_at_or_below(self.zone)
            and qname != self.zone
            and not any(qname.is_at_or_below(excluded) for excluded in self.exclusions)
        )


class NegativeZones:
    """The negative zones of one answer table."""

    def __init__(
        self, table: AnswerTable, groups: HitGroups, blocks: Mapping[Name, BlockPolicy]
    ) -> None:
        self._table = table
        self._groups = groups
        self._blocks = blocks
        self._choice = BlockChoice.by_zone(blocks)
        self._zones: list[NegativeZone] = []
        self._with_template: set[int] = set()
        for block, policy in blocks.items():
            if not policy.reason and policy.source is not None:
                for zone in policy.source.zones:
                    self._add(zone, block, policy, policy.source)

    def store_template(self, query: Query, block: Name, wire: bytes, out: bytes, size: int) -> bool:
        """Use an NXDOMAIN reply as template; return False if the reply needs its own entry.

        It needs one if its name is in no negative zone of the block, or in one that already has a template but still
        passes the name to the chain.
        """
        zone = self.find(query, block)
        if zone is None or zone.number in self._with_template:
            return False
        if self._table.set_template(zone.number, wire, out, size):
            self._with_template.add(zone.number)
        return True

    def find(self, query: Query, block: Name) -> NegativeZone | None:
        """The longest negative zone that covers the name, of this block only: others may answer differently."""
        if query.qtype not in NEGATIVE_TYPES:
            return None
        found = [each for each in self._zones if each.block == block and each.covers(query.qname)]
        return max(found, key=lambda each: len(each.zone.lower), default=None)

    def _add(self, zone: Name, block: Name, policy: BlockPolicy, source: AnswerSource) -> None:
        owner = self._choice.match(zone, RRType.A)
        if owner is None or owner.zone != block or _holds_addresses(zone):
            return
        if not source.tells_absence(zone):
            return
        answered_first = policy.names_answered_first(zone)
        if answered_first is None:
            return
        exclusions = [
            other for other in self._blocks if other != block and other.is_at_or_below(zone)
        ]
        exclusions += [
            other for other in source.zones if other != zone and other.is_at_or_below(zone)
        ]
        exclusions += answered_first
        kind = policy.cache.denial_kind(zone) if policy.cache is not None else None
        number = self._table.add_negative_zone(
            zone.lower,
            source.names,
            [excluded.lower for excluded in exclusions],
            {
                int(qtype): self._groups.number(block, policy, qtype, Rcode.NXDOMAIN, kind)
                for qtype in NEGATIVE_TYPES
            },
            -1 if kind is None else 0,
            policy.log is not None,
            policy.max_payload,
            source.explains,
        )
        self._zones.append(NegativeZone(zone, block, number, tuple(exclusions)))


def _holds_addresses(zone: Name) -> bool:
    """Whether a zone has reverse names; their labels do not show which of them exist."""
    return any(
        zone.is_at_or_below(reverse) or reverse.is_at_or_below(zone) for reverse in REVERSE_ZONES
    )


class NumerousNames:
    """The names of one answer table, in memory that does not grow."""

    def __init__(self, table: AnswerTable, groups: HitGroups, zones: NegativeZones) -> None:
        self._table = table
        self._groups = groups
        self._zones = zones
        # Zone, type, whether it is of a Pod, whether there is an answer.
        self._forms: set[tuple[int, int, bool, bool]] = set()
        # The last name of each slot, as one octet of its hash: one in 255 others is read as it.
        self._last = bytearray(_SLOTS)

    def makes(
        self,
        query: Query,
        reply: Reply,
        policy: BlockPolicy,
        block: Name,
        wire: bytes,
        out: bytes,
        mark: tuple[str, int] | None,
    ) -> bool:
        """Let the table make replies of a block like this one; return whether it does so, now or already.

        `mark` is that of the reply's dependencies.
        """
        if reply.rcode != Rcode.NOERROR:
            return False
        kind, mark_ttl = mark or (None, -1)
        source, zone = policy.source, self._zones.find(query, block)
        if zone is None or source is None or mark_ttl > 0:
            return False
        is_pod = query.qname.below(zone.zone)[-1] == POD
        if not (source.has_all_pod_names if is_pod else source.has_all_namespaces):
            return False
        form = (zone.number, query.qtype, is_pod, bool(reply.answer))
        if form not in self._forms:
            group = self._groups.number(block, policy, query.qtype, Rcode.NOERROR, kind)
            size = reply_size(query, reply)
            if not self._table.set_form(zone.number, wire, out, size, group, mark_ttl):
                return False
            self._forms.add(form)
        return True

    def is_repeated(self, qname: Name) -> bool:
        """Note that a name was queried; return whether it was before."""
        number = hash(qname.lower)
        slot, tag = number % _SLOTS, (number >> 16) % 255 + 1  # 0 is a slot without a name
        is_known = self._last[slot] == tag
        self._last[slot] = tag
        return is_known
