"""Goes through many queries in steps, between which others run.

Path: the modules beside this one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn

STEP: Final = 100  # queries, of which the slowest work takes half a millisecond


async def steps(found: Sequence[SeenQuery], turn: Turn) -> AsyncGenerator[SeenQuery, None]:
    """All of the queries; after STEP of them others run, if the turn has become long."""
    for at in range(0, len(found), STEP):
        for each in found[at : at + STEP]:
            yield each
        await turn.end_if_long()
