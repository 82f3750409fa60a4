"""Which clients press in a soak."""

from loadtest.pressure.goals import GOALS
from loadtest.pressure.rows import BY_KEY
from loadtest.pressure.soak import PRESSERS, REWRITTEN


def test_each_row_that_presses_a_server_is_in_it() -> None:
    """Floods of misses are that of the lighter flood of new names; no server reads the hostile manifests."""
    assert {*PRESSERS, REWRITTEN} == {*BY_KEY} - {"new-12k", "misses", "yaml"}
    assert {goal.row for goal in GOALS} >= {*PRESSERS, REWRITTEN}
