"""The table of the process: which ends it has; test_histories.py runs by it."""

import pytest

from hsdns.server.phases import STOPPING, TRANSITIONS, Event, Phase

FOLLOWING = {(row.state, row.event): row.following for row in TRANSITIONS}


def test_no_row_contradicts_another() -> None:
    assert len(FOLLOWING) == len(TRANSITIONS)
    assert all(row.action for row in TRANSITIONS)


@pytest.mark.parametrize("event", [Event.SHUT_DOWN, Event.CLOSE, Event.QUIT])
def test_a_signal_may_come_at_any_time(event: Event) -> None:
    assert {phase for phase in Phase if (phase, event) in FOLLOWING} == set(Phase)


def test_what_is_stopping_serves_no_more() -> None:
    for (phase, _), following in FOLLOWING.items():
        assert phase not in STOPPING or following in STOPPING


def test_nothing_leaves_the_end() -> None:
    assert {following for (phase, _), following in FOLLOWING.items() if phase is Phase.CLOSED} == {
        Phase.CLOSED
    }
