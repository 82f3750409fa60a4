"""What explanations need of where they are made: a command, or a server that runs.

Path: explain.py -> here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from hsdns.chain import Spawn
from hsdns.cluster.freshness import Counters
from hsdns.fastpath import Peeked
from hsdns.wire.message import Reply

Run = Callable[[Coroutine[Any, Any, Reply]], Awaitable[Reply]]
Pause = Callable[[], Awaitable[None]]
Peek = Callable[[str, bytes, float], Peeked | None]


async def _at_once(asking: Coroutine[Any, Any, Reply]) -> Reply:
    return await asking


async def _go_on() -> None:
    pass


def _nothing(server: str, query: bytes, now: float) -> Peeked | None:
    return None


class Edges(NamedTuple):
    """What explanations in a running server need: whether other servers are asked, how a chain runs, when to pause.

    `run` steps what may wait, `spawn` runs handlers in tasks, `pause` lets others run, `clock` is monotonic seconds.
    `counters` are those of the answer tables, None where there are none.  `peek` looks into the table of a server, as
    metrics name it, for the octets of a query at a time in monotonic seconds.
    """

    spawn: Spawn
    asks: bool = False
    run: Run = _at_once
    pause: Pause = _go_on
    clock: Callable[[], float] = lambda: 0.0
    counters: Counters | None = None
    peek: Peek = _nothing
