"""Lets the event loop turn in the middle of a long computation.

Path: handlers and query.py call it between the pieces of what takes milliseconds; eager.py, which steps the coroutine,
then goes on with it in a task, after all that is ready.
Rule: no event loop is needed: what is yielded to it is what asyncio.sleep(0) yields.
"""

from __future__ import annotations

import types
from collections.abc import Generator, Iterable
from itertools import islice
from typing import Final, TypeVar

# Records made in one turn, or by one call in C, whose end other threads wait for.  Thousands take milliseconds.
AT_ONCE: Final = 256

T = TypeVar("T")


@types.coroutine
def another_turn() -> Generator[None, None, None]:
    """Go on in the next turn of the loop."""
    yield


async def listed(items: Iterable[T]) -> list[T]:
    """Return a list of some items that are made while it is, AT_ONCE of them in each turn."""
    rest = iter(items)
    found: list[T] = []
    while piece := [*islice(rest, AT_ONCE)]:
        found += piece
        if len(piece) < AT_ONCE:
            break
        await another_turn()
    return found
