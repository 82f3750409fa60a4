"""The interface of explanations to their surroundings: a command, or a running server.

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
    """The surroundings of explanations: whether other servers are queried, how a chain runs, when to pause.

    `run` runs a coroutine that may wait, `spawn` runs handlers in tasks, `pause` lets other work run, `clock` is
    monotonic seconds.  `counters` are the counters of the answer tables, None if there are none.  `peek` looks a
    query's octets up in the table of a server, as metrics name it, at a time in monotonic seconds, without changing the
    table.
    """

    spawn: Spawn
    asks: bool = False
    run: Run = _at_once
    pause: Pause = _go_on
    clock: Callable[[], float] = lambda: 0.0
    counters: Counters | None = None
    peek: Peek = _nothing
