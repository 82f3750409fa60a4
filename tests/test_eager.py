from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from hsdns.eager import Wait, start


def refuse(coro: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
    coro.close()
    raise AssertionError("a coroutine that does not wait was given a task")


async def through_futures(futures: list[asyncio.Future[str]]) -> str:
    return " ".join([await future for future in futures])


async def catches(future: asyncio.Future[str]) -> str:
    try:
        return await future
    except LookupError as error:
        return f"caught {error}"


async def cleans_up(future: asyncio.Future[str], log: list[str]) -> str:
    try:
        return await future
    finally:
        log.append("cleaned up")


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


async def the_first_step_is_waited_for(driver: Driver) -> None:
    waits = [future(), future()]
    driver.start(through_futures(waits))
    waits[1].set_result("b")
    await asyncio.sleep(0)
    assert driver.delivered == []
    waits[0].set_result("a")


async def done_before_the_task_begins(driver: Driver) -> None:
    wait = future()
    driver.start(through_futures([wait]))
    wait.set_result("early")


async def an_error_reaches_the_coroutine(driver: Driver) -> None:
    wait = future()
    driver.start(catches(wait))
    wait.set_exception(LookupError("late"))


async def an_error_is_the_tasks(driver: Driver) -> None:
    wait = future()
    driver.start(through_futures([wait]))
    wait.set_exception(LookupError("late"))


async def many_at_once_do_not_mix(driver: Driver) -> None:
    waits = [future() for _ in range(4)]
    for wait in waits:
        driver.start(through_futures([wait]))
    await asyncio.sleep(0)
    for number, wait in reversed(list(enumerate(waits))):
        wait.set_result(str(number))


@pytest.mark.parametrize(
    ("scenario", "delivered", "errors"),
    [
        (the_first_step_is_waited_for, ["a b"], []),
        (done_before_the_task_begins, ["early"], []),
        (an_error_reaches_the_coroutine, ["caught late"], []),
        (an_error_is_the_tasks, [None], ["late"]),
        (many_at_once_do_not_mix, ["3", "2", "1", "0"], []),
    ],
)
def test_futures(
    scenario: Callable[[Driver], Coroutine[Any, Any, None]],
    delivered: list[str | None],
    errors: list[str],
) -> None:
    driver = run(scenario)
    assert driver.delivered == delivered
    assert [str(task.exception()) for task in driver.tasks if task.exception()] == errors


def test_cancelling_the_task_cancels_the_coroutine() -> None:
    log: list[str] = []

    async def scenario(driver: Driver) -> None:
        driver.start(cleans_up(future(), log))
        await asyncio.sleep(0)
        driver.tasks[0].cancel()

    driver = run(scenario)
    assert driver.tasks[0].cancelled()
    assert (driver.delivered, log) == ([None], ["cleaned up"])


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


def test_a_wait_is_over_in_the_callback_that_ends_it() -> None:
    found: list[str | None] = []
    waits: list[Wait[str]] = [Wait() for _ in range(3)]
    waits[1].succeed("b")
    start(through_waits(waits), found.append, refuse)
    assert found == []
    waits[0].succeed("a")
    assert found == []
    waits[2].succeed("c")
    assert found == ["a b c"]


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
