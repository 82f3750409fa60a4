"""Restarts the process for rules of faults: at given times, or whenever too many queries are pending.

Path: faults.py reports each change of the rules -> here -> lifecycle.py kills the serving instance, and starts it
again.
Rule 1: a rule is hit when it kills the process.  It stays active until the process runs again, so that removing the
        rule starts the process at once.
Rule 2: only one restart runs at a time; others that are due wait for it.  A restart that had to wait for a reload
        checks afterwards whether its rule still requires it.

Why the server, or a configuration of it, does not start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

from hsdns.corefile.tree import CorefileError
from hsdns.faults.action import Restart
from hsdns.faults.rules import Rule, Rules
from hsdns.server.http import HttpError
from hsdns.server.instance import Instance
from hsdns.server.sockets import ListenError

# Their message is a sentence for the operator; any other exception is a fault of the server, logged with its stack.
START_FAILURES: Final = (CorefileError, ListenError, HttpError, OSError)


class StartError(Exception):
    """A sentence for the operator: why the server did not start."""


POLL: Final = 0.01  # seconds between two checks of the number of pending queries
INTERVAL: Final = 1.0  # seconds between two attempts to start again
log = logging.getLogger("hsdns.faults")

CallLater = Callable[[float, Callable[[], None]], Any]


class Process(Protocol):
    """The interface of the process to the rules."""

    @property
    def instance(self) -> Instance | None:
        """The serving configuration."""

    async def restart(
        self, dead: Callable[[], Awaitable[None]], wanted: Callable[[], bool]
    ) -> bool:
        """Kill the serving instance, and start it again when `dead` has returned.

        Return False, with nothing done, if the process ends, or if `wanted`, called right before, returns False.
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
        self._rule: Rule | None = None  # the rule that has killed the process
        self._back = asyncio.Event()  # set when the process is to start again
        self._is_closed = False

    @property
    def is_restarting(self) -> bool:
        """Whether a rule has killed the process, and it has not restarted yet."""
        return self._rule is not None

    def look(self) -> None:
        """Run the restart that is due, and set the timer for the next one."""
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
            seconds = rule.begun + rule.selector.seconds - now
            if seconds <= 0 and self._is_needed(rule.action):
                self._begin(rule)
                return
            waits.append(max(seconds, POLL))
        if waits:
            self._timer = self._call_later(min(waits), self.look)

    def close(self) -> None:
        """Start the process again at once, and restart it no more."""
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
    """Try to start again until that succeeds or the process ends; `close` closes what an attempt has opened."""
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
