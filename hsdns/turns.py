"""Lets the event loop turn in the middle of a long computation.

Path: cluster/answer.py, plugins/cache and query.py call it between the pieces of what takes milliseconds; eager.py,
which steps the coroutine, then goes on with it in a task, after all that is ready.
Rule: no event loop is needed: what is yielded to it is what asyncio.sleep(0) yields.
"""

from __future__ import annotations

import types
from collections.abc import Generator


@types.coroutine
def another_turn() -> Generator[None, None, None]:
    """Go on in the next turn of the loop."""
    yield
