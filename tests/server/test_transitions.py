"""A table of transitions, and what runs by it."""

from enum import Enum, auto

import pytest

from hsdns.server.phases import ImpossibleEventError, StateMachine, Transition


class Lamp(Enum):
    OFF = auto()
    ON = auto()


class Event(Enum):
    PRESS = auto()
    BREAK = auto()


TABLE = (
    Transition(Lamp.OFF, Event.PRESS, Lamp.ON, "it is lit"),
    Transition(Lamp.ON, Event.PRESS, Lamp.OFF, "it is dark"),
)


def test_events_lead_from_state_to_state() -> None:
    machine = StateMachine(TABLE, Lamp.OFF)
    assert [machine.fire(Event.PRESS) for _ in range(3)] == [Lamp.ON, Lamp.OFF, Lamp.ON]
    assert machine.state is Lamp.ON


def test_event_that_the_table_does_not_have_changes_nothing() -> None:
    machine = StateMachine(TABLE, Lamp.OFF)
    with pytest.raises(ImpossibleEventError, match="Lamp OFF has no BREAK"):
        machine.fire(Event.BREAK)
    assert machine.state is Lamp.OFF
