"""The chain of handlers, stepped by hand and run in tasks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hsdns import eager
from hsdns.chain import Next, Request, link
from hsdns.eager import Wait, start
from hsdns.plugin import Plugin
from hsdns.server.runtime import Tasks
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import CD, RD, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.plugins.requests import make_request
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

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


@pytest.mark.parametrize(("tags", "answers", "asked", "error"), values(TABLES, "link"))
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


def test_nested_request_asks_as_the_client_did() -> None:
    edns = Edns(1232, do=True, options=((10, b"12345678"),))
    request = make_request("a.example.org.", "MX", edns=edns, flags=RD | CD, depth=2)
    nested = request.nested(Name.from_text("b.example.net."), RRType.A)
    query = nested.query
    assert (query.qname.to_text(), query.qtype, query.qclass) == ("b.example.net.", 1, 1)
    assert (query.id, query.flags, query.edns) == (request.query.id, RD | CD, edns)
    assert nested == request.replace(query=query, depth=3)


def refuse(coro: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
    coro.close()
    raise AssertionError("a coroutine that does not wait was given a task")


class Driver:
    """Starts coroutines in a loop and keeps what came of them."""

    def __init__(self) -> None:
        self.delivered: list[Any] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self.tasks.append(asyncio.get_running_loop().create_task(coro))
        return self.tasks[-1]

    def start(self, coro: Coroutine[Any, Any, Any]) -> None:
        start(coro, self.delivered.append, self.spawn)


def run(scenario: Callable[[Driver], Coroutine[Any, Any, None]]) -> Driver:
    """Play a scenario in a loop, then wait for the tasks."""
    driver = Driver()

    async def main() -> None:
        await scenario(driver)
        await asyncio.gather(*driver.tasks, return_exceptions=True)

    asyncio.run(main())
    return driver


def future() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


# --- waits, which need no task ---


async def through_waits(waits: list[Wait[str]]) -> str:
    return " ".join([await wait for wait in waits])


async def catches_wait(wait: Wait[str]) -> str:
    try:
        return await wait
    except LookupError as error:
        return f"caught {error}"


async def waits_then_future(wait: Wait[str], future: asyncio.Future[str]) -> str:
    return await wait + await future


def test_a_wait_that_fails_leaves_no_circle() -> None:
    """Else each time-out is garbage that only a collection frees."""

    async def ask(found: list[str | None]) -> None:
        wait: Wait[str] = Wait()
        start(catches_wait(wait), found.append, refuse)
        wait.fail(LookupError("in time"))

    found: list[str | None] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            start(ask(found), lambda _: None, refuse)
        assert gc.collect() < 50  # what else is in the process may be a few
    finally:
        gc.enable()
    assert found == ["caught in time"] * 50


def test_the_first_end_of_a_wait_counts() -> None:
    found: list[str | None] = []
    wait: Wait[str] = Wait()
    start(catches_wait(wait), found.append, refuse)
    wait.fail(LookupError("this"))
    wait.succeed("late")
    wait.fail(LookupError("late"))
    assert found == ["caught this"]


@pytest.mark.parametrize("is_logged", [True, False], ids=["error", "cancelled"])
def test_an_error_after_a_wait_costs_its_query_alone(
    is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found: list[str | None] = []
    wait: Wait[str] = Wait()
    start(through_waits([wait]), found.append, refuse)
    if is_logged:
        wait.fail(LookupError("this"))
    else:
        with pytest.raises(asyncio.CancelledError):
            wait.fail(asyncio.CancelledError())
    assert found == [None]
    assert ("a query is lost" in caplog.text) == is_logged


def test_a_future_after_a_wait_gets_a_task() -> None:
    async def scenario(driver: Driver) -> None:
        wait: Wait[str] = Wait()
        later = future()
        driver.start(waits_then_future(wait, later))
        wait.succeed("a")
        assert (driver.delivered, len(driver.tasks)) == ([], 1)
        later.set_result("b")

    assert run(scenario).delivered == ["ab"]
