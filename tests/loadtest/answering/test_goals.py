import pytest

from loadtest.answering.goals import GOALS, Goal, Verdict, judge
from loadtest.answering.mixes import BY_KEY, DRAIN
from loadtest.answering.programs import TITLES
from loadtest.answering.results import Results, Sample

SIDES = (("hot", "hsdns"), ("hot", "echo"))


@pytest.mark.parametrize(
    ("limit", "aim", "ratio", "holds", "word"),
    [
        (1.25, 1.1, 1.0, True, "aim reached"),
        (1.25, 1.1, 1.2, True, "holds, aim missed"),
        (1.25, 1.1, 1.3, False, "FAILS"),
        (1.25, None, 1.25, True, "holds"),
        (1.25, 1.1, None, False, "not measured"),
        (None, 1.2, 1.3, True, "aim missed"),
        (None, 1.2, None, True, "not measured"),
    ],
    ids=lambda value: str(value),
)
def test_verdict(
    limit: float | None, aim: float | None, ratio: float | None, holds: bool, word: str
) -> None:
    verdict = Verdict(Goal("", *SIDES, limit, aim), ratio, DRAIN, None)
    assert (verdict.holds, verdict.word) == (holds, word)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.what)
def test_goals_name_what_there_is(goal: Goal) -> None:
    for mix, server in (goal.ours, goal.others):
        assert mix in BY_KEY
        assert server in TITLES


def test_only_what_was_asked_for_is_judged() -> None:
    results = Results(
        [Sample("hot", "hsdns", DRAIN, 0, 5.0, 0.0), Sample("hot", "echo", DRAIN, 0, 4.0, 0.0)], []
    )
    verdicts = judge(results, ["hot"], ["hsdns", "echo", "knot"])
    assert [(each.ratio, each.word) for each in verdicts] == [
        (1.25, "holds, aim missed"),
        (None, "not measured"),
    ]
