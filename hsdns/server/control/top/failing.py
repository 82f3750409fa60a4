"""The names that fail at present.

Path: picture.py -> here; causes.py finds the reason.
Rule: a name fails if its reply has an rcode other than NOERROR, or if there is no reply.  Queries that a search list
      causes in vain are left out (search_waste.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hsdns.server.control.top.rates import NO_REPLY
from hsdns.server.control.top.steps import steps
from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

MOST: Final = 10


@dataclass
class FailingName:
    """A name, type and rcode; `queries` is their number, with the time of the last one (seconds since the epoch)."""

    name: Name
    type: str
    rcode: str
    queries: float = 0.0
    last: float = 0.0


async def failing(found: Sequence[SeenQuery], vain: set[int], turn: Turn) -> list[FailingName]:
    """The names that fail most often."""
    names: dict[tuple[bytes, str, str], FailingName] = {}
    async for each in steps(found, turn):
        rcode = each.rcode or NO_REPLY
        if rcode == "NOERROR" or id(each) in vain:
            continue
        key = each.name.lower, each.type, rcode
        entry = names.get(key)
        if entry is None:
            entry = names[key] = FailingName(each.name.lowered(), each.type, rcode)
        entry.queries += each.weight
        entry.last = max(entry.last, each.time)
    return sorted(names.values(), key=lambda each: (-each.queries, each.name.lower))[:MOST]
