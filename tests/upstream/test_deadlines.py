from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.upstream.deadlines import Deadlines

TICK = 0.5


@pytest.mark.parametrize(
    ("now", "due"),
    [
        pytest.param(10.0, [], id="before"),
        pytest.param(10.4, [], id="never-early"),
        pytest.param(10.5, ["a", "b"], id="at-the-end-of-the-tick"),
        pytest.param(99.0, ["a", "b", "c"], id="long-after"),
    ],
)
def test_take_due(now: float, due: list[str]) -> None:
    deadlines: Deadlines[str] = Deadlines(TICK)
    for deadline, item in ((12.0, "c"), (10.2, "a"), (10.4, "b"), (10.1, "removed")):
        deadlines.add(deadline, item)
    deadlines.remove(10.1, "removed")
    deadlines.remove(10.1, "never there")
    deadlines.remove(50.0, "never there")
    assert deadlines.take_due(now) == due
    assert deadlines.take_due(now) == []
    assert bool(deadlines) == (len(due) < 3)


@given(added=st.lists(st.floats(0, 100)), times=st.lists(st.floats(0, 102), min_size=1).map(sorted))
def test_each_is_due_once_and_at_most_a_tick_late(added: list[float], times: list[float]) -> None:
    deadlines: Deadlines[tuple[int, float]] = Deadlines(TICK)
    for item in enumerate(added):
        deadlines.add(item[1], item)
    waiting = set(enumerate(added))
    for now in times:
        due = deadlines.take_due(now)
        assert len(set(due)) == len(due)
        assert waiting.issuperset(due)
        waiting.difference_update(due)
        assert all(deadline <= now for _, deadline in due)
        assert all(deadline > now - TICK for _, deadline in waiting)
    assert bool(deadlines) == bool(waiting)
