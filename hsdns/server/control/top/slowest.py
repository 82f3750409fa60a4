"""The questions with the longest times to their answers.

Path: picture.py -> here.
Rule: each question is listed once, with its longest time.  The time of a hit of the answer table is that of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hsdns.server.control.top.steps import steps
from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn

MOST: Final = 10


async def slowest(found: Sequence[SeenQuery], turn: Turn) -> list[dict[str, Any]]:
    """The slowest questions, and the listeners that received them."""
    longest: dict[tuple[bytes, str], SeenQuery] = {}
    async for each in steps(found, turn):
        key = each.name.lower, each.type
        known = longest.get(key)
        if known is None or each.seconds > known.seconds:
            longest[key] = each
    worst = sorted(longest.values(), key=lambda each: (-each.seconds, each.name.lower))[:MOST]
    return [
        {
            "name": each.name.to_text(),
            "type": each.type,
            "duration_ms": round(each.seconds * 1000, 3),
            "server": each.server,
        }
        for each in worst
    ]
