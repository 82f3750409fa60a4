"""Iterates over many queries in steps, and lets other tasks run in between.

Path: the modules beside this one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn

STEP: Final = 100  # queries; the slowest computation over them takes half a millisecond


async def steps(found: Sequence[SeenQuery], turn: Turn) -> AsyncGenerator[SeenQuery, None]:
    """Yield all queries; after each STEP of them let other tasks run, if this iteration of the loop has become long."""
    for at in range(0, len(found), STEP):
        for each in found[at : at + STEP]:
            yield each
        await turn.end_if_long()
