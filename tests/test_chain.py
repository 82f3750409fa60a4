"""The chain of handlers, stepped by hand and run in tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hsdns import eager
from hsdns.chain import Handler, Next, Plugin, Readiness, Request, fold, hand_over
from hsdns.server.runtime import Tasks
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import LOOPS, run, until
from tests.support.plugins.requests import make_request

REQUEST = make_request("example.org")


class Tagging(Handler):
    """Adds its tag to the error of the reply from below, and notes when it is asked."""

    def __init__(self, tag: str, asked: list[str], *, answers: bool = False) -> None:
        self.name = tag  # type: ignore[misc]  # each stands for a plugin of its own
        self._asked = asked
        self._answers = answers

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        self._asked.append(self.name)
        found = Reply(error="") if self._answers else await next(request)
        return found.replace(error=f"{found.error}<{self.name}")


class Waiting(Handler):
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
        pytest.param("a", "", "a", "plugin/a: no next plugin found<a", id="nobody-answers"),
        pytest.param("abc", "", "abc", "plugin/c: no next plugin found<c<b<a", id="nobody-of-three-answers"),
        pytest.param("abc", "b", "ab", "<b<a", id="second-answers"),
        pytest.param("abc", "a", "a", "<a", id="first-answers"),
    ],
)  # fmt: skip
def test_fold(tags: str, answers: str, asked: str, error: str) -> None:
    seen: list[str] = []
    handlers = [Tagging(tag, seen, answers=tag in answers) for tag in tags]
    found = finish(ask(fold(handlers, no_spawn)))
    assert "".join(seen) == asked
    assert found.error == error
    assert found.rcode == (0 if answers else 2)
    assert found.written is bool(answers)


def test_handler_that_answers_at_once_needs_no_loop() -> None:
    delivered: list[Reply | None] = []
    chain = fold([Tagging("a", [], answers=True)], no_spawn)

    eager.start(ask(chain), delivered.append, no_spawn)
    assert [found and found.error for found in delivered] == ["<a"]


@pytest.mark.parametrize("loop", LOOPS)
def test_handler_that_waits_runs_in_a_task(loop: str) -> None:
    async def test() -> None:
        tasks, delivered = Tasks(), list[Reply | None]()
        waiting = Waiting()
        chain = fold([Tagging("a", []), waiting, Tagging("b", [], answers=True)], tasks.spawn)

        eager.start(ask(chain), delivered.append, tasks.spawn)
        assert delivered == []
        await asyncio.sleep(0)
        assert waiting.task not in (None, asyncio.current_task())
        waiting.go_on.set()
        await until(lambda: not len(tasks), "all tasks at their end")
        assert [found and found.error for found in delivered] == ["<b<a"]

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_time_limit_works_in_a_handler_that_waits(loop: str) -> None:
    async def test() -> None:
        tasks, delivered = Tasks(), list[Reply | None]()
        chain = fold([Waiting(limit=0)], tasks.spawn)

        eager.start(ask(chain), delivered.append, tasks.spawn)
        await until(lambda: not len(tasks), "all tasks at their end")
        assert [found and found.error for found in delivered] == ["too late"]

    run(test(), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_cancellation_reaches_the_handler_and_is_told(loop: str) -> None:
    async def test() -> None:
        tasks, delivered = Tasks(), list[Reply | None]()
        waiting = Waiting()
        chain = fold([Tagging("a", []), waiting], tasks.spawn)

        eager.start(ask(chain), delivered.append, tasks.spawn)
        await asyncio.sleep(0)
        await tasks.cancel()
        assert waiting.cancelled
        assert delivered == [None]
        assert len(tasks) == 0

    run(test(), loop)


def test_requests_are_changed_by_copies() -> None:
    changed = REQUEST.replace(depth=3)
    assert (REQUEST.depth, changed.depth, changed.query) == (0, 3, REQUEST.query)
    with pytest.raises(AttributeError):
        REQUEST.depth = 1  # type: ignore[misc]  # what is tested


def test_plugin_by_default_starts_nothing_and_is_ready() -> None:
    plugin = Plugin()
    finish(plugin.stop())
    assert plugin.ready()
    assert plugin.remark() == ""
    assert not plugin.may_relapse
    assert not Handler.waits
    assert not Handler.cacheable


class Asked(Plugin):
    def __init__(
        self, name: str, ready: bool = True, remark: str = "", strict: bool = False
    ) -> None:
        self.name = name  # type: ignore[misc]  # each stands for a plugin of its own
        self.may_relapse = strict
        self._ready, self._remark = ready, remark

    def ready(self) -> bool:
        return self._ready

    def remark(self) -> str:
        return self._remark


@pytest.mark.parametrize(
    ("plugins", "readiness"),
    [
        pytest.param([], ([], [], []), id="none"),
        pytest.param([Asked("b", False), Asked("a", False), Asked("c")], (["a", "b"], [], []), id="sorted"),
        pytest.param([Asked("a", False), Asked("a"), Asked("a", False)], (["a"], [], []), id="once"),
        pytest.param([Asked("a", False, strict=True), Asked("b", strict=True)], (["a"], ["a"], []), id="relapsed"),
        pytest.param(
            [Asked("b", remark="old"), Asked("a", remark="new"), Asked("b", remark="old")],
            ([], [], ["a: new", "b: old"]),
            id="remarks",
        ),
    ],
)  # fmt: skip
def test_readiness(
    plugins: list[Plugin], readiness: tuple[list[str], list[str], list[str]]
) -> None:
    assert Readiness.of(plugins) == readiness


class Heir(Plugin):
    """Inherits from what it is told to."""

    def __init__(self, name: str, wants: Plugin | None = None) -> None:
        self.name = name  # type: ignore[misc]  # each stands for a plugin of its own
        self.wants = wants
        self.asked: list[Plugin] = []

    def inherit(self, old: Plugin) -> bool:
        self.asked.append(old)
        return old is self.wants


def test_plugins_are_offered_those_of_their_name_until_they_take_one() -> None:
    old = [Heir("a"), Heir("b"), Heir("a"), Heir("a")]
    takes, takes_none, other = Heir("a", old[2]), Heir("a"), Heir("c")
    hand_over(old, [takes, takes_none, other])
    assert takes.asked == [old[0], old[2]]
    assert takes_none.asked == [old[0], old[2], old[3]]
    assert other.asked == []
    assert not Plugin().inherit(old[0])
