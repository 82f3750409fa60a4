"""State machines, defined by tables of transitions.

Path: instance.py and lifecycle.py have a table each; everything that happens to them is an event in their table.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Transition(NamedTuple, Generic[S, E]):
    """In `state`, `event` leads to `following`; `action` is a sentence that says what is done."""

    state: S
    event: E
    following: S
    action: str


class ImpossibleEventError(RuntimeError):
    """The table has no such event in the present state: a fault of the server."""


class StateMachine(Generic[S, E]):
    """The present state of an object whose states are defined by a table."""

    def __init__(self, table: Iterable[Transition[S, E]], initial: S) -> None:
        self.state = initial
        self._following = {(row.state, row.event): row.following for row in table}

    def fire(self, event: E) -> S:
        """Process an event; return the state after it, or raise ImpossibleEventError."""
        following = self._following.get((self.state, event))
        if following is None:
            raise ImpossibleEventError(
                f"{type(self.state).__name__} {self.state.name} has no {event.name}"
            )
        self.state = following
        return following
