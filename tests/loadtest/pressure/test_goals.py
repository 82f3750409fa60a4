import pytest

from loadtest.answering.programs import COREDNS, NATIVE
from loadtest.figures import Spread
from loadtest.pressure.clients import Counts
from loadtest.pressure.goals import GOALS, HIGHEST, LOWEST, Goal, Share, Verdict, judge
from loadtest.pressure.results import FIGURES, Outcome
from loadtest.pressure.rows import BY_KEY


@pytest.mark.parametrize(
    ("sense", "limit", "value", "holds", "word"),
    [
        (HIGHEST, 20.0, 19.9, True, "holds"),
        (HIGHEST, 20.0, 20.1, False, "FAILS"),
        (LOWEST, 0.95, 0.95, True, "holds"),
        (LOWEST, 0.95, 0.94, False, "FAILS"),
        (HIGHEST, 20.0, None, False, "not measured"),
        (HIGHEST, None, 1.0, False, "not measured"),
    ],
)
def test_verdict(
    sense: str, limit: float | None, value: float | None, holds: bool, word: str
) -> None:
    verdict = Verdict(Goal("existing", "answered", sense, 0), NATIVE, value, limit)
    assert (verdict.holds, verdict.word) == (holds, word)


@pytest.mark.parametrize(
    ("value", "share", "holds", "word"),
    [
        (10.0, 0.5, True, "holds"),
        (30.0, 0.95, True, "holds: answered 95%"),
        (30.0, 0.94, False, "FAILS"),
        (30.0, None, False, "FAILS"),
        (None, 0.95, False, "not measured"),
    ],
)
def test_a_share_can_be_enough_instead(
    value: float | None, share: float | None, holds: bool, word: str
) -> None:
    goal = Goal("new-12k", "pressing p99, ms", HIGHEST, 0, instead=Share("answered", 0.95))
    verdict = Verdict(goal, NATIVE, value, 20.0, share)
    assert (verdict.holds, verdict.word) == (holds, word)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.row} {goal.figure}")
def test_goals_name_what_there_is(goal: Goal) -> None:
    assert goal.row in BY_KEY
    assert goal.figure in FIGURES


def outcome(server: str, **more: object) -> Outcome:
    made = Outcome("new-4k", server, Counts(1000, 1000, 1000), cpu=0.1)
    return made._replace(**more)  # type: ignore[arg-type] # whatever a test sets


def verdicts(*outcomes: Outcome) -> dict[str, tuple[float | None, float | None]]:
    servers = [NATIVE, COREDNS]
    found = judge(outcomes, ["new-4k"], servers)
    return {each.goal.figure: (each.value, each.limit) for each in found}


def test_a_limit_can_be_a_multiple_of_the_other_servers_figure() -> None:
    found = verdicts(outcome(NATIVE), outcome(COREDNS, cpu=0.2))
    assert found["CPU µs an answer"] == pytest.approx((100.0, 300.0))


def test_a_server_that_ended_reaches_nothing() -> None:
    ended = outcome(NATIVE, ended="hsdns ended with status 1", events=Spread.of([0.001]))
    assert all(value is None for value, _ in verdicts(ended, outcome(COREDNS)).values())


def test_without_the_other_server_nothing_is_compared() -> None:
    found = judge([outcome(NATIVE)], ["new-4k"], [NATIVE])
    assert "CPU µs an answer" not in [each.goal.figure for each in found]


def test_events_are_judged_in_every_row() -> None:
    slow = outcome(NATIVE, events=Spread.of([0.001, 0.150]), judged={"right": 5, "stale": 2})
    found = verdicts(slow, outcome(COREDNS))
    assert found["event worst, ms"] == (150.0, 100.0)
    assert found["stale or wrong answers"] == (2, 0.0)
