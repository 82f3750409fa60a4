"""One configuration from its start to its end; test_histories.py has it in any history."""

import pytest

from tests.server.stand_ins import Script, World


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
