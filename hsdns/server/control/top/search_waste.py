"""Finds the clients that send queries in vain because of their search list (ndots).

Path: picture.py -> here.
Rule: a query is wasted if it got NXDOMAIN, its name ends in a search domain of the cluster (NAMESPACE.svc.ZONE,
      svc.ZONE or ZONE), and the rest of the name was resolved in the same period, by itself or with svc.ZONE or ZONE.
      So a name that fails in every form is not wasted: it fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from hsdns.server.control.top.steps import steps
from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

MOST: Final = 10
SVC: Final = b"svc"
Labels = tuple[bytes, ...]


async def wasted(found: Sequence[SeenQuery], zones: tuple[Name, ...], turn: Turn) -> set[int]:
    """The id() of the wasted queries."""
    known: dict[bytes, list[Labels]] = {}

    def stems(name: Name) -> list[Labels]:
        if name.lower not in known:
            known[name.lower] = list(_stems(name, zones))
        return known[name.lower]

    resolved: set[Labels] = set()
    failed: list[SeenQuery] = []
    async for each in steps(found, turn):
        if each.rcode == "NOERROR":
            resolved.add(each.name.labels)
            # A name found with the first search domain wastes no query, so only the later domains count.
            resolved.update(stems(each.name)[-2:])
        elif each.rcode == "NXDOMAIN":
            failed.append(each)
    return {
        id(each)
        async for each in steps(failed, turn)
        if any(stem in resolved for stem in stems(each.name))
    }


async def search_waste(
    found: Sequence[SeenQuery], vain: set[int], turn: Turn
) -> list[dict[str, Any]]:
    """The clients that send most wasted queries."""
    queries: dict[str, float] = {}
    in_vain: dict[str, float] = {}
    examples: dict[str, str] = {}
    async for each in steps(found, turn):
        queries[each.client] = queries.get(each.client, 0.0) + each.weight
        if id(each) in vain:
            in_vain[each.client] = in_vain.get(each.client, 0.0) + each.weight
            examples[each.client] = each.name.to_text()
    worst = sorted(in_vain.items(), key=lambda each: (-each[1], each[0]))[:MOST]
    return [
        {
            "client": client,
            "queries": round(queries[client]),
            "wasted": round(count),
            "example": examples[client],
        }
        for client, count in worst
    ]


def _stems(name: Name, zones: tuple[Name, ...]) -> Iterator[Labels]:
    """A name without the search domains of the cluster: that of a namespace, that of Services, and the zone itself."""
    zone = name.longest_of(zones)
    if zone is None:
        return
    labels = name.below(zone)
    if len(labels) > 2 and labels[-1] == SVC:
        yield labels[:-2]
    if len(labels) > 1 and labels[-1] == SVC:
        yield labels[:-1]
    if labels:
        yield labels
