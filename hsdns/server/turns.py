"""Turns of the loop, shared between connections whose messages cost more than a look into the answer table.

Path: doh.py enters its connections; all of the process share one Turns.
Rule 1: in a turn of the loop at most STEPS steps are made and about SECONDS are spent, whatever has arrived; then
        everything else on the loop has its turn.
Rule 2: connections take steps one after the other, so one with much to do delays another by a step only.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

STEPS: Final = 64  # a turn, as many as TCP has messages for one connection
SECONDS: Final = 0.0005  # after which no more steps begin in a turn


log = logging.getLogger("hsdns.server")


class TakesSteps(Protocol):
    """A connection that has messages waiting."""

    def step(self) -> bool:
        """Handle one message; tell whether the next one may follow."""

    def end_turn(self) -> None:
        """Write what the steps of this turn have brought."""

    def close(self) -> None:
        """Close, after a step that has failed."""


class Turns:
    """Lets connections take steps; `call_soon` calls a function in the next turn of the loop."""

    def __init__(
        self, clock: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._queue: deque[TakesSteps] = deque()
        self._entered: set[TakesSteps] = set()
        self._left = STEPS
        self._spent = 0.0
        self._has_next = False
        self._is_running = False

    def enter(self, connection: TakesSteps) -> None:
        """Let a connection take steps as long as it has any, from now on; again changes nothing."""
        if connection not in self._entered:
            self._entered.add(connection)
            self._queue.append(connection)
            self._run()

    def _run(self) -> None:
        if self._is_running:  # a step has entered a connection
            return
        self._is_running = True
        if not self._has_next:
            self._has_next = True
            self._call_soon(self._begin)
        stepped = []
        clock, queue = self._clock, self._queue
        try:
            while queue and self._left > 0 and self._spent < SECONDS:
                connection = queue.popleft()
                self._entered.discard(connection)
                began = clock()
                try:
                    has_more = connection.step()
                except Exception:
                    log.exception("a message cannot be handled; its connection is closed")
                    has_more = False
                    connection.close()
                self._left -= 1
                self._spent += clock() - began
                stepped.append(connection)
                if has_more and connection not in self._entered:
                    self._entered.add(connection)
                    queue.append(connection)
        finally:
            self._is_running = False
            for connection in dict.fromkeys(stepped):
                connection.end_turn()

    def _begin(self) -> None:
        self._has_next = False
        self._left, self._spent = STEPS, 0.0
        if self._queue:
            self._run()
