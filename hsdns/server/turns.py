"""Shares the event loop fairly between the connections of all clients.

Path: tcp.py and doh.py enter their connections, http_connection.py those to pages; one Turns serves all connections
with DNS messages of the process, another one those to pages.
Rule 1: one iteration of the loop makes at most STEPS steps and spends about SECONDS on them, however much has arrived
        on however many connections; then all other tasks of the loop run.
Rule 2: clients make their steps one after the other, so a client with much work delays others by one step only.  The
        connections of a client share its steps, so more connections do not get it more steps.
Rule 3: what is in `between` is called after each step, because it may not wait for the others (udp.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

STEPS: Final = 64  # in one iteration of the loop
SECONDS: Final = 0.0005  # after which no more steps begin in an iteration
_FEW: Final = 8
FAILED: Final = "a message cannot be handled; its connection is closed"

log = logging.getLogger("hsdns.server")


class TakesSteps(Protocol):
    """A connection with waiting messages."""

    @property
    def client(self) -> bytes:
        """Its client, as client_of() in places.py names it; it does not change."""

    def step(self) -> bool:
        """Handle one message; return whether the next one may follow."""

    def end_turn(self) -> None:
        """Write the replies of the steps in this iteration."""

    def close(self) -> None:
        """Close, after a failed step."""


class Turns:
    """Lets connections make steps; `call_soon` calls a function in the next iteration of the loop.

    `between`: what to call after each step, by whom.
    """

    def __init__(
        self, clock: Callable[[], float], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.between: dict[object, Callable[[], None]] = {}
        self._clock = clock
        self._call_soon = call_soon
        self._clients: deque[bytes] = deque()  # the client with the next step first
        self._lines: dict[bytes, deque[TakesSteps]] = {}  # of each client, never empty
        self._entered: set[TakesSteps] = set()
        self._left = STEPS
        self._spent = 0.0
        self._has_next = False
        self._is_running = False

    def enter(self, connection: TakesSteps) -> None:
        """Let a connection make steps from now on, as long as it has any; does nothing if it is entered already."""
        if connection not in self._entered:
            self._append(connection)
            self._run()

    def _append(self, connection: TakesSteps) -> None:
        self._entered.add(connection)
        line = self._lines.get(connection.client)
        if line is None:
            self._lines[connection.client] = deque((connection,))
            self._clients.append(connection.client)
        else:
            line.append(connection)

    def _pop(self) -> TakesSteps:
        client = self._clients.popleft()
        line = self._lines[client]
        connection = line.popleft()
        if line:
            self._clients.append(client)
        else:
            del self._lines[client]
        self._entered.discard(connection)
        return connection

    def _run(self) -> None:
        if self._is_running:  # a step, or end_turn(), has entered a connection
            return
        self._is_running = True
        stepped: dict[TakesSteps, None] = {}
        clients, entered = self._clients, self._entered
        before = self._clock()
        while clients and self._left > 0 and self._spent < SECONDS:
            connection = self._pop()
            stepped[connection] = None
            try:
                if connection.step() and connection not in entered:
                    self._append(connection)
            except Exception:
                log.exception(FAILED)
                connection.close()
            for call in self.between.values():
                call()
            now = self._clock()
            self._left -= 1
            self._spent += now - before
            before = now
        for connection in stepped:  # connections that these calls enter wait for the next iteration
            try:
                connection.end_turn()
            except Exception:
                log.exception(FAILED)
                connection.close()
        self._is_running = False
        # After a few short steps no callback is scheduled, which would cost more; they count in the next iteration.
        if not self._has_next and (
            clients or self._left < STEPS - _FEW or self._spent > SECONDS / _FEW
        ):
            self._has_next = True
            self._call_soon(self._begin)

    def _begin(self) -> None:
        self._has_next = False
        self._left, self._spent = STEPS, 0.0
        if self._clients:
            self._run()
