"""Names without number, above all those of Pods: their replies are made, or stored when they are queried again.

Path: beside step 2; writer.py asks here before it stores a reply whose like is without number: about an address of a
Pod, or a topology zone that no endpoint is in.
Rule 1: the table makes the replies about Pods in a negative zone whose source has all names of Pods, each type from one
        reply of the chain, unless `cache` would store them: it counts each of them by itself.
Rule 2: elsewhere the first reply to a name is not stored, because that costs more than making another one.
"""

from __future__ import annotations

from typing import Final

from hsdns.answer_table.hits import HitGroups
from hsdns.answer_table.negative_zones import NegativeZones
from hsdns.answer_table.policy import BlockPolicy
from hsdns.cluster.question import POD
from hsdns.fastpath import AnswerTable
from hsdns.wire.encode import reply_size
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

_SLOTS: Final = 8192


class NumerousNames:
    """The names of one answer table, in memory that does not grow."""

    def __init__(self, table: AnswerTable, groups: HitGroups, zones: NegativeZones) -> None:
        self._table = table
        self._groups = groups
        self._zones = zones
        self._forms: set[tuple[int, int, bool]] = set()  # zone, type, whether there is an answer
        # The last name of each slot, as one octet of its hash: one in 256 others is taken for it.
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
        if zone is None or source is None or not source.has_all_pod_names or mark_ttl > 0:
            return False
        if query.qname.below(zone.zone)[-1] != POD:
            return False
        form = (zone.number, query.qtype, bool(reply.answer))
        if form not in self._forms:
            group = self._groups.number(block, policy, query.qtype, Rcode.NOERROR, kind)
            size = reply_size(query, reply)
            if not self._table.set_pod_form(zone.number, wire, out, size, group, mark_ttl):
                return False
            self._forms.add(form)
        return True

    def is_repeated(self, qname: Name) -> bool:
        """Note that a name was queried; return whether it was before."""
        number = hash(qname.lower)
        slot, tag = number % _SLOTS, number >> 16 & 0xFF
        is_known = self._last[slot] == tag
        self._last[slot] = tag
        return is_known
