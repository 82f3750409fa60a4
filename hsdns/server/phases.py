"""The phases of the process, and the events that lead from one to another.

Path: lifecycle.py follows this table; signals.py and the plugins cause the events.

State machines, defined by tables of transitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

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


class Phase(Enum):
    """The phase of the process."""

    NEW = auto()
    STARTING = auto()
    SERVING = auto()
    RELOADING = auto()
    LAMEDUCK = auto()  # a signal that ends the server has arrived; a reload may still continue
    CLOSING = auto()
    QUITTING = auto()  # as CLOSING, without waiting
    CLOSED = auto()


class Event(Enum):
    """What happens to the process."""

    START = auto()
    STARTED = auto()
    RELOAD = auto()
    RELOAD_ENDED = auto()  # whether or not it has failed
    SHUT_DOWN = auto()  # SIGTERM, SIGINT
    CLOSE = auto()  # the lameduck period is over, a plugin has failed, or the start has
    QUIT = auto()  # SIGQUIT, or a second SIGINT
    CLOSED = auto()


def _from_each(
    phases: Iterable[Phase], event: Event, following: Phase | None, action: str
) -> Iterator[Transition[Phase, Event]]:
    """Rows for several phases; without `following` each phase stays."""
    return (Transition(phase, event, following or phase, action) for phase in phases)


_BEFORE: Final = (Phase.NEW, Phase.STARTING)
_RUNNING: Final = (Phase.SERVING, Phase.RELOADING)
_ENDING: Final = (Phase.CLOSING, Phase.QUITTING)
_ENDED: Final = (Phase.CLOSED,)
STOPPING: Final = frozenset((Phase.LAMEDUCK, *_ENDING, *_ENDED))

TRANSITIONS: Final = (
    Transition(Phase.NEW, Event.START, Phase.STARTING, "the first instance starts"),
    Transition(Phase.STARTING, Event.STARTED, Phase.SERVING, "its listeners are read"),
    Transition(Phase.SERVING, Event.RELOAD, Phase.RELOADING, "the Corefile is read, its instance starts"),
    Transition(Phase.RELOADING, Event.RELOAD_ENDED, Phase.SERVING, "the old instance drains, or goes on"),
    Transition(Phase.LAMEDUCK, Event.RELOAD_ENDED, Phase.LAMEDUCK, "as in RELOADING"),
    *_from_each(_ENDING, Event.STARTED, None, "the instance is closed: its start could not be cancelled any more"),
    *_from_each(_ENDING, Event.RELOAD_ENDED, None, "the instance that serves now is closed"),
    *_from_each(_BEFORE, Event.SHUT_DOWN, Phase.CLOSING, "nothing is served: the start is cancelled"),
    *_from_each(_RUNNING, Event.SHUT_DOWN, Phase.LAMEDUCK, "/ready says no, the lameduck period begins"),
    *_from_each((Phase.LAMEDUCK, *_ENDING, *_ENDED), Event.SHUT_DOWN, None, "nothing: it is stopping"),
    *_from_each((*_BEFORE, *_RUNNING, Phase.LAMEDUCK), Event.CLOSE, Phase.CLOSING, "a start is cancelled, all drains"),
    *_from_each((*_ENDING, *_ENDED), Event.CLOSE, None, "nothing: it is closing"),
    *_from_each(set(Phase) - {Phase.CLOSED}, Event.QUIT, Phase.QUITTING, "as CLOSE, and nothing is waited for"),
    *_from_each(_ENDED, Event.QUIT, None, "nothing"),
    *_from_each(_ENDING, Event.CLOSED, Phase.CLOSED, "run() returns the status"),
)  # fmt: skip
