"""The defaults: nobody is asked, nothing waits, and no table is there."""

from __future__ import annotations

from hsdns.explanation.observed import Edges
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer


def test_where_nothing_waits() -> None:
    edges = Edges(MemoryServer(". {\nwhoami\n}\n", None).runtime.queries.spawn)
    reply = Reply()

    async def asking() -> Reply:
        return reply

    async def found() -> Reply:
        await edges.pause()
        return await edges.run(asking())

    assert turns(found())[0] is reply
    assert (edges.asks, edges.clock()) == (False, 0.0)
