"""Which clients press in a soak."""

from loadtest.pressure.goals import GOALS
from loadtest.pressure.rows import BY_KEY
from loadtest.pressure.soak import PRESSERS, REWRITTEN


def test_each_row_that_presses_a_server_is_in_it() -> None:
    """Heavier forms of others are not; no server reads the hostile manifests, and CoreDNS has no dashboard."""
    left_out = {"new-12k", "misses", "yaml", "http-heads", "http-streams"}
    assert {*PRESSERS, REWRITTEN} == {*BY_KEY} - left_out
    assert {goal.row for goal in GOALS} >= {*PRESSERS, REWRITTEN}
