"""One configuration from its start to its end; test_histories.py has it in any history."""

import pytest

from hsdns.server.instance import TRANSITIONS, Event, State
from tests.server.stand_ins import Script, World

FOLLOWING = {(row.state, row.event): row.following for row in TRANSITIONS}


def test_no_row_contradicts_another() -> None:
    assert len(FOLLOWING) == len(TRANSITIONS)
    assert all(row.action for row in TRANSITIONS)


def test_names_may_change_at_any_time() -> None:
    for state in State:
        assert FOLLOWING[state, Event.NAMES_CHANGED] is state


def test_each_state_leads_to_the_end() -> None:
    for state in State:
        reached, seen = {state}, set[State]()
        while reached - seen:
            at = (reached - seen).pop()
            seen.add(at)
            reached |= {following for (before, _), following in FOLLOWING.items() if before is at}
        assert State.STOPPED in reached


@pytest.mark.parametrize("fault", ["bind", "http", "processors", "udp", "tcp"])
def test_start_that_fails_leaves_nothing(fault: str) -> None:
    world = World(Script(fault=fault))
    try:
        world.loop.turn(40)
        assert world.main.result() == 1
        assert [each.started for each in world.plugins] == [each.stopped for each in world.plugins]
        assert world.plugins[0].stopped == 1
        assert not any(each.is_open for each in world.sockets)
    finally:
        world.close()


@pytest.mark.parametrize("stop", ["fails", "ends as cancelled"])
def test_plugin_that_does_not_stop_cleanly_keeps_no_other_from_it(stop: str) -> None:
    world = World(Script(stops=(stop, "now", "now")))
    try:
        world.loop.turn(40)
        world.loop.call_soon(world.server.quit, 0)
        world.loop.wait(0.1)
        assert world.main.result() == 0
        assert [each.stopped for each in world.plugins] == [1, 1, 1]
        expected = ["plugin/health did not stop cleanly"] if stop == "fails" else []
        assert world.errors.messages == expected
    finally:
        world.close()
