"""Which server block answers a name.

Path: step 4, `decode -> zones -> chain`.
Source: CoreDNS 1.14.7 core/dnsserver/server.go: the longest zone wins, label by label; a DS question belongs to the
parent's side of a cut, so it takes the shortest zone that matches; nothing matched is REFUSED.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

T = TypeVar("T")


class Zones(Generic[T]):
    """Zones of one listener and what serves each."""

    __slots__ = ("_by_zone",)

    def __init__(self, zones: dict[Name, T]) -> None:
        self._by_zone = {zone.lower: (zone, block) for zone, block in zones.items()}

    def match(self, qname: Name, qtype: int) -> tuple[Name, T] | None:
        """Find the zone for a question."""
        found = None
        by_zone = self._by_zone
        if len(by_zone) == 1 and b"\0" in by_zone:
            return by_zone[b"\0"]
        for suffix in qname.ancestors():
            entry = by_zone.get(suffix)
            if entry is not None:
                if suffix == b"\0" and found is not None:
                    return found  # the root block is a last resort, also for DS
                found = entry
                if qtype != RRType.DS:
                    return found
        return found

    def matches(self, qname: Name) -> Iterator[tuple[Name, T]]:
        """All zones that a name is in, longest first."""
        for suffix in qname.ancestors():
            entry = self._by_zone.get(suffix)
            if entry is not None:
                yield entry
