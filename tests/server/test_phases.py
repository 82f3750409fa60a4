"""The tables of transitions of the process and of a configuration; test_histories.py runs by both."""

from enum import Enum, auto
from typing import Any

import pytest

from hsdns.server import instance, lifecycle
from hsdns.server.instance import ImpossibleEventError, State, StateMachine, Transition
from hsdns.server.lifecycle import STOPPING, Phase


def following(table: Any) -> dict[tuple[Any, Any], Any]:
    """State and event -> the state after it."""
    return {(row.state, row.event): row.following for row in table}


OF_PROCESS, OF_INSTANCE = following(lifecycle.TRANSITIONS), following(instance.TRANSITIONS)


@pytest.mark.parametrize("table", [lifecycle.TRANSITIONS, instance.TRANSITIONS])
def test_no_row_contradicts_another(table: Any) -> None:
    assert len(following(table)) == len(table)
    assert all(row.action for row in table)


@pytest.mark.parametrize(
    "event", [lifecycle.Event.SHUT_DOWN, lifecycle.Event.CLOSE, lifecycle.Event.QUIT]
)
def test_a_signal_may_come_at_any_time(event: lifecycle.Event) -> None:
    assert {phase for phase in Phase if (phase, event) in OF_PROCESS} == set(Phase)


def test_what_is_stopping_serves_no_more() -> None:
    for (phase, _), after in OF_PROCESS.items():
        assert phase not in STOPPING or after in STOPPING
        assert phase is not Phase.CLOSED or after is Phase.CLOSED


def test_each_state_leads_to_the_end() -> None:
    for state in State:
        reached, seen = {state}, set[State]()
        while reached - seen:
            at = (reached - seen).pop()
            seen.add(at)
            reached |= {after for (before, _), after in OF_INSTANCE.items() if before is at}
        assert State.STOPPED in reached


class Lamp(Enum):
    OFF = auto()
    ON = auto()


def test_a_machine_follows_its_table() -> None:
    table = (
        Transition(Lamp.OFF, lifecycle.Event.START, Lamp.ON, "it is lit"),
        Transition(Lamp.ON, lifecycle.Event.START, Lamp.OFF, "it is dark"),
    )
    machine = StateMachine(table, Lamp.OFF)
    for after in (Lamp.ON, Lamp.OFF):
        assert machine.fire(lifecycle.Event.START) is machine.state is after
    with pytest.raises(ImpossibleEventError, match="Lamp OFF has no QUIT"):
        machine.fire(lifecycle.Event.QUIT)
    assert machine.state is Lamp.OFF
