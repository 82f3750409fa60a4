"""The chain of handlers, stepped by hand and run in tasks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns import eager
from hsdns.chain import BlockChoice, Candidate, Next, Request, link
from hsdns.eager import Wait, start
from hsdns.plugin import Plugin
from hsdns.server.runtime import Tasks
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import CD, RD, Reply, unwritten
from hsdns.wire.name import ROOT, Name
from tests import strategies
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


# --- by the zone alone ---


def by_zone(*texts: str) -> BlockChoice[str]:
    return BlockChoice.by_zone({Name.from_text(text): text for text in texts})


@given(
    served=st.lists(strategies.related_names(), max_size=6),
    qname=strategies.related_names(),
    ds=st.booleans(),
)
def test_zone_is_the_longest_or_for_ds_the_shortest(
    served: list[Name], qname: Name, ds: bool
) -> None:
    found = BlockChoice.by_zone(dict.fromkeys(served, 1)).match(
        qname, RRType.DS if ds else RRType.A
    )
    holding = sorted(
        {zone.labels for zone in served if qname.is_at_or_below(zone)}, key=len, reverse=True
    )
    if not holding:
        assert found is None
        return
    assert found is not None
    # The root block is a last resort also for DS.
    cuts = [labels for labels in holding if labels] or holding
    assert found.zone.labels == (cuts[-1] if ds else holding[0])


# --- with filters ---


class LabelFilter(NamedTuple):
    """Takes the names that begin with a label, "" for all, and adds to the view's name."""

    label: str
    view: str = ""

    def filter_request(self, request: Request) -> Request | None:
        """Take a query, or not."""
        if self.label and request.query.qname.labels[:1] != (self.label.encode(),):
            return None
        return request.replace(view=request.view + self.view)


def chain(name: str) -> Next:
    async def answer(request: Request) -> Reply:
        raise AssertionError(f"{name} is not called here")

    answer.__name__ = name
    return answer


CHAINS = {name: chain(name) for name in ("red", "green", "blue", "grey")}


def choose(
    zones: dict[str, list[tuple[str | None, str]]], qname: str, qtype: str = "A"
) -> str | None:
    """Choose among blocks given as chain and label; say chain, zone and view."""
    choice = BlockChoice(
        {
            zone: [
                Candidate(zone, CHAINS[name] if name else None, (LabelFilter(label, f"v-{name}"),))
                for name, label in blocks
            ]
            for zone, blocks in ((Name.from_text(text), found) for text, found in zones.items())
        }
    )
    found = choice.choose(make_request(qname, qtype))
    if found is None:
        return None
    return f"{found[1].__name__} {found[0].zone.to_text()} {found[0].view}"


RED, GREEN, BLUE = ("red", ""), ("green", ""), ("blue", "")
RED_WWW = ("red", "www")


@pytest.mark.parametrize(
    ("zones", "qname", "qtype", "expected"),
    [
        ({"example.org": [RED_WWW, GREEN]}, "www.example.org", "A", "red example.org. v-red"),
        ({"example.org": [RED_WWW, GREEN]}, "ftp.example.org", "A", "green example.org. v-green"),
        ({"example.org": [GREEN, RED_WWW]}, "www.example.org", "A", "green example.org. v-green"),
        ({"example.org": [RED_WWW], "org": [GREEN]}, "ftp.example.org", "A", "green org. v-green"),
        ({"example.org": [RED_WWW], ".": [GREEN]}, "ftp.example.org", "A", "green . v-green"),
        ({"example.org": [RED_WWW]}, "ftp.example.org", "A", None),
        ({"example.org": [RED]}, "example.net", "A", None),
        ({"example.org": [(None, "www"), RED]}, "ftp.example.org", "A", None),
        ({".": [(None, ""), RED]}, "example.org", "A", "red . v-red"),
        ({"example.org": [RED], "org": [GREEN, BLUE]}, "example.org", "DS", "blue org. v-blue"),
        ({"example.org": [RED], ".": [GREEN]}, "example.org", "DS", "red example.org. v-red"),
        ({".": [RED_WWW, GREEN, BLUE]}, "example.org", "DS", "green . v-green"),
        ({".": [RED, GREEN]}, ".", "DS", "green . v-green"),
        ({".": [RED_WWW, GREEN]}, ".", "A", "green . v-green"),
    ],
    ids=[
        "first-that-takes-it", "second", "file-order", "shorter-zone", "root-at-last", "no-block-takes-it", "no-zone",
        "block-without-handlers-refuses", "root-block-without-handlers-is-passed-over", "ds-to-the-last-that-takes-it",
        "ds-not-to-the-root", "ds-to-the-first-of-the-root", "ds-of-the-root", "root-name",
    ],
)  # fmt: skip
def test_choose(
    zones: dict[str, list[tuple[str | None, str]]], qname: str, qtype: str, expected: str | None
) -> None:
    assert choose(zones, qname, qtype) == expected


def test_each_block_sees_the_query_as_it_came_in() -> None:
    choice = BlockChoice(
        {
            ROOT: [
                Candidate(ROOT, CHAINS["red"], (LabelFilter("", "a"), LabelFilter("www", "b"))),
                Candidate(ROOT, CHAINS["green"], (LabelFilter("", "c"),)),
            ]
        }
    )
    found = choice.choose(make_request("ftp.example.org"))
    assert found is not None
    assert (found[0].view, found[1].__name__) == ("c", "green")
