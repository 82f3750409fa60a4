"""The chain of handlers, stepped by hand and run in tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hsdns import eager
from hsdns.chain import Next, Request, link
from hsdns.cluster.freshness import Dependencies, NoCounters
from hsdns.plugin import Plugin
from hsdns.server.runtime import Tasks
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import CD, RD, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.plugins.requests import make_request

REQUEST = make_request("example.org")


class Tagging(Plugin):
    """Adds its tag to the error of the reply from below, and notes when it is asked."""

    def __init__(self, tag: str, asked: list[str], *, answers: bool = False) -> None:
        self.name = tag  # type: ignore[misc]  # each stands for a plugin of its own
        self._asked = asked
        self._answers = answers

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        self._asked.append(self.name)
        found = Reply(error="") if self._answers else await next(request)
        return found.replace(error=f"{found.error}<{self.name}")


class Waiting(Plugin):
    """Waits for an event, in a task of its own as it says."""

    name = "waiting"
    waits = True

    def __init__(self, limit: float | None = None) -> None:
        self.go_on = asyncio.Event()
        self.task: asyncio.Task[Any] | None = None
        self.cancelled = False
        self._limit = limit

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        self.task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limit):
                await self.go_on.wait()
        except TimeoutError:
            return unwritten(2, "too late")
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return await next(request)


async def ask(chain: Next) -> Reply:
    return await chain(REQUEST)


def no_spawn(coro: Coroutine[Any, Any, Reply]) -> Any:
    coro.close()
    raise AssertionError("a handler that does not wait was given a task")


@pytest.mark.parametrize(
    ("tags", "answers", "asked", "error"),
    [
        pytest.param("", "", "", "plugin/block: no next plugin found", id="no-handler"),
        pytest.param("a", "", "a", "plugin/a: no next plugin found<a", id="no-answer"),
        pytest.param("abc", "", "abc", "plugin/c: no next plugin found<c<b<a", id="no-answer-of-three"),
        pytest.param("abc", "b", "ab", "<b<a", id="second-answers"),
        pytest.param("abc", "a", "a", "<a", id="first-answers"),
    ],
)  # fmt: skip
def test_link(tags: str, answers: str, asked: str, error: str) -> None:
    seen: list[str] = []
    handlers = [Tagging(tag, seen, answers=tag in answers) for tag in tags]
    found = finish(ask(link(handlers, no_spawn)))
    assert "".join(seen) == asked
    assert found.error == error
    assert found.rcode == (0 if answers else 2)
    assert found.written is bool(answers)


@pytest.mark.parametrize("loop", LOOPS)
async def test_handler_that_waits_runs_in_a_task(loop: str) -> None:

    tasks, delivered = Tasks(), list[Reply | None]()
    waiting = Waiting()
    chain = link([Tagging("a", []), waiting, Tagging("b", [], answers=True)], tasks.spawn)

    eager.start(ask(chain), delivered.append, tasks.spawn)
    assert delivered == []
    await asyncio.sleep(0)
    assert waiting.task not in (None, asyncio.current_task())
    waiting.go_on.set()
    await until(lambda: not len(tasks), "all tasks at their end")
    assert [found and found.error for found in delivered] == ["<b<a"]


@pytest.mark.parametrize("loop", LOOPS)
async def test_cancellation_reaches_the_handler_and_is_told(loop: str) -> None:

    tasks, delivered = Tasks(), list[Reply | None]()
    waiting = Waiting()
    chain = link([Tagging("a", []), waiting], tasks.spawn)

    eager.start(ask(chain), delivered.append, tasks.spawn)
    await asyncio.sleep(0)
    await tasks.cancel()
    assert waiting.cancelled
    assert delivered == [None]
    assert len(tasks) == 0


def test_nested_request_asks_as_the_client_did() -> None:
    edns = Edns(1232, do=True, options=((10, b"12345678"),))
    request = make_request("a.example.org.", "MX", edns=edns, flags=RD | CD, depth=2)
    nested = request.nested(Name.from_text("b.example.net."), RRType.A)
    query = nested.query
    assert (query.qname.to_text(), query.qtype, query.qclass) == ("b.example.net.", 1, 1)
    assert (query.id, query.flags, query.edns) == (request.query.id, RD | CD, edns)
    assert nested == request.replace(query=query, depth=3)


def test_what_a_nested_request_was_needed_for_is_not_stored() -> None:
    dependencies = Dependencies(NoCounters())
    request = make_request("a.example.org.").replace(dependencies=dependencies)
    assert request.nested(Name.from_text("b."), RRType.A).dependencies is dependencies
    assert not dependencies.is_cacheable
