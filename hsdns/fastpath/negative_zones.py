"""The negative zones of one answer table, and the reply of the one that is nearest above a name.

Path: step 2; table.py asks it if it has no entry.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.fastpath.entry import write
from hsdns.fastpath.hit_counts import LENGTH_SHIFT
from hsdns.fastpath.key import Form, lower_size
from hsdns.fastpath.negative_zone import LEFT_TO_CHAIN, NOT_BELOW, NegativeZone
from hsdns.fastpath.peek import DENIAL, UNTIMED, Peeked
from hsdns.fastpath.soa_template import COUNTS


class ZoneHit(NamedTuple):
    """A reply of a negative zone with the kind of the hit over UDP and IPv4, and the form that it was written for.

    `zone` is None for the name of a Pod: such replies are not prepared.
    """

    reply: bytes
    kind: int
    form: Form
    zone: NegativeZone | None


class NegativeZones:
    """Zones by number."""

    def __init__(self) -> None:
        self._zones: list[NegativeZone] = []
        self._by_length: list[NegativeZone] = []  # longest zone first

    def __getitem__(self, number: int) -> NegativeZone:
        """Raise IndexError if there is no such negative zone."""
        if not 0 <= number < len(self._zones):
            raise IndexError("the table has no such negative zone")
        return self._zones[number]

    def add(self, zone: NegativeZone) -> int:
        """Add a zone; return its number."""
        self._zones.append(zone)
        self._by_length = sorted(self._zones, key=lambda each: -len(each.zone))
        return len(self._zones) - 1

    def is_listed(self, key: bytes) -> bool:
        """Whether a key is that of the name of an existing Service, or of one of its endpoints."""
        return any(each.is_listed(key) for each in self._by_length)

    def find(self, key: bytes) -> tuple[int, NegativeZone] | None:
        """What NegativeZone.find() returns for the longest zone above a name, and the zone; None without a zone."""
        for zone in self._by_length:
            kind = zone.find(key)
            if kind != NOT_BELOW:
                return kind, zone
        return None

    def peek(self, key: bytes, end: int) -> Peeked | None:
        """The hit of answer(), None for a miss."""
        found = self.find(key)
        if found is None:
            return None
        kind, zone = found
        if kind >= 0:
            return DENIAL
        return None if zone.find_pod(key, end) is None else UNTIMED

    def answer(
        self,
        found: tuple[int, NegativeZone],
        key: bytes,
        query: bytes,
        end: int,
        form: Form,
        limit: int | None,
    ) -> ZoneHit | None:
        """The reply of the zone that find() has found to a query whose question ends at `end`.

        `limit` None: the limit is the query's over UDP.
        """
        kind, zone = found
        pod = zone.find_pod(key, end) if kind == LEFT_TO_CHAIN else None
        if kind == LEFT_TO_CHAIN and pod is None:
            return None
        if form.limit > zone.max_payload:
            form = lower_size(form, zone.max_payload)
        limit = form.limit if limit is None else limit
        more = len(query) << LENGTH_SHIFT | form.do
        if pod is not None:
            reply = write(query, end, form, limit, pod.flags, pod.counts, pod.records)
            return ZoneHit(reply, pod.kind | more, form, None)
        template = zone.template
        assert template is not None, "negative_zone.py found a name absent"
        reply = write(query, end, form, limit, template.flags, COUNTS, zone.record(end))
        return ZoneHit(reply, kind | more, form, zone)
