"""Has the process restart for rules of faults: when they are due, or each time when too many queries are pending.

Path: faults.py tells it of each change of the rules -> here -> lifecycle.py kills what serves, and starts it again.
Rule 1: a rule is hit when the process is killed for it.  It stands until the process is back, so that its end brings
        the process back at once.
Rule 2: one restart at a time; what is due meanwhile comes after it.  One that waits for a reload looks again after it
        whether its rule still wants it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from hsdns.faults.process import Restart, due_at
from hsdns.faults.rule import Rule
from hsdns.faults.rules import Rules
from hsdns.server.instance import Instance
from hsdns.server.start_error import START_FAILURES

POLL: Final = 0.01  # seconds between looks at how many queries are pending
INTERVAL: Final = 1.0  # seconds between tries to start again
log = logging.getLogger("hsdns.faults")

CallLater = Callable[[float, Callable[[], None]], Any]


class Process(Protocol):
    """The process as its rules know it."""

    @property
    def instance(self) -> Instance | None:
        """The configuration that serves."""

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        """Kill what serves, and start it again when `dead` has returned.

        False, and nothing is done, if the process ends; or if it is not `wanted`, which is asked right before.
        """

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> None:
        """Start a task."""


class Restarts:
    """The restarts of a process.

    `clock` gives monotonic seconds, `call_later` calls a function after some seconds; `ended` is called after each
    restart.
    """

    def __init__(
        self,
        rules: Rules,
        process: Process,
        clock: Callable[[], float],
        call_later: CallLater,
        ended: Callable[[], None],
    ) -> None:
        self._rules, self._process = rules, process
        self._clock, self._call_later, self._ended = clock, call_later, ended
        self._timer: Any = None
        self._rule: Rule | None = None  # for which the process restarts
        self._back = asyncio.Event()  # that it is to come back
        self._is_closed = False

    @property
    def is_restarting(self) -> bool:
        """Whether the process is killed, and not yet back."""
        return self._rule is not None

    def look(self) -> None:
        """Do what is due, and look again when the next rule is."""
        self._forget_timer()
        now = self._clock()
        if self._rule is not None:
            if self._rule.is_lifted(now):
                self._back.set()
            return
        waits = []
        for rule in self._rules.about("process"):
            assert isinstance(rule.action, Restart), "about the process"
            if self._is_closed or rule.is_over(now):
                continue
            seconds = rule.begun + due_at(rule.selector) - now
            if seconds <= 0 and self._is_needed(rule.action):
                self._begin(rule)
                return
            waits.append(max(seconds, POLL))
        if waits:
            self._timer = self._call_later(min(waits), self.look)

    def close(self) -> None:
        """Come back at once, and restart no more."""
        self._is_closed = True
        self._back.set()
        self._forget_timer()

    def _is_needed(self, action: Restart) -> bool:
        instance = self._process.instance
        if action.pending is None or instance is None:
            return action.pending is None
        return sum(each.pending for each in instance.listeners) >= action.pending

    def _begin(self, rule: Rule) -> None:
        self._rule, self._back = rule, asyncio.Event()
        rule.is_at_work = True
        self._process.spawn(self._run(rule), "restart")

    async def _run(self, rule: Rule) -> None:
        assert isinstance(rule.action, Restart), "about the process"
        action, back, is_wanted = rule.action, self._back, True

        def wanted() -> bool:
            nonlocal is_wanted
            is_wanted = not rule.is_over(self._clock()) and self._is_needed(action)
            return is_wanted

        async def dead() -> None:
            self._rules.strike(rule)
            log.warning('plugin/fault: the process is killed by the rule "%s"', rule.name)
            timer = self._call_later(action.dead, back.set)
            await back.wait()
            timer.cancel()

        try:
            is_back = await self._process.restart(dead, wanted)
        finally:
            rule.is_at_work, self._rule = False, None
        if not is_back and is_wanted:
            self._is_closed = True  # the process ends
        if is_back and not self._is_closed:
            log.warning('plugin/fault: the process is back, after the rule "%s"', rule.name)
        self._ended()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def until_started(
    start: Callable[[], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
    ends: Callable[[], bool],
) -> None:
    """Try to start again until that works, or the process ends; `close` closes what a try has opened."""
    while not ends():
        try:
            await start()
        except Exception as error:
            trace = None if isinstance(error, START_FAILURES) else error
            log.error("does not start again: %s", error, exc_info=trace)
            await close()
        else:
            return
        await asyncio.sleep(INTERVAL)
