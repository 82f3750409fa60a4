"""Many queries in steps."""

from __future__ import annotations

from hsdns.server.control.top import STEP, steps
from tests.server.control.top.seen import seen


class Turns:
    """Counts where others may run."""

    def __init__(self) -> None:
        self.count = 0

    async def end_if_long(self) -> None:
        self.count += 1


async def test_steps() -> None:

    turns = Turns()
    queries = [seen(f"n{number}.example NOERROR") for number in range(2 * STEP + 1)]
    found = [each async for each in steps(queries, turns)]  # type: ignore[arg-type]
    assert (found, turns.count) == (queries, 3)
