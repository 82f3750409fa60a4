import pytest

from loadtest.watch.goals import GOALS, judge, table
from loadtest.watch.report import Row

ROWS = [
    Row("10,000 Services", "start to ready, s", 1.2, 1.0, 2),
    Row("10,000 Services", "CPU to ready, s", 0.7, 1.0, 2),
    Row("5,000 changes/s for 60 s, 10,000 Services", "CPU, s", 1.0, 2.0, 1),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident after 10 s, MB", 100.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident at the end, MB", 130.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "names wrong at the end", 0.0, 7.0, 0),
]


@pytest.mark.parametrize(
    ("part", "figure", "value", "word", "holds"),
    [
        pytest.param("10,000 Services", "start to ready, s", 1.2, "holds, aim missed", True, id="within"),
        pytest.param("10,000 Services", "CPU to ready, s", 0.7, "aim reached", True, id="aim"),
        pytest.param("10,000 Services", "API server's CPU meanwhile, s", None, "not measured", True, id="no limit"),
        pytest.param("5,000 changes/s", "CPU, s", 0.5, "aim missed", True, id="no limit, missed"),
        pytest.param("5,000 changes/s", "resident at the end, MB", 1.3, "FAILS", False, id="its own"),
        pytest.param("5,000 changes/s", "names wrong at the end", 0.0, "holds", True, id="absolute"),
        pytest.param("API server away", "from its return until the state is current, s", None, "not measured", False, id="missing"),
    ],
)  # fmt: skip
def test_verdict(part: str, figure: str, value: float | None, word: str, holds: bool) -> None:
    verdicts = judge(ROWS, ("start", "flood", "return"), (10_000,))
    (found,) = [each for each in verdicts if (each.goal.part, each.goal.figure) == (part, figure)]
    assert found.value == (None if value is None else pytest.approx(value))
    assert (found.word, found.holds) == (word, holds)


def test_only_what_was_selected_is_judged() -> None:
    assert {each.goal.part for each in judge(ROWS, ("start",), (10_000,))} == {"10,000 Services"}
    assert judge(ROWS, (), ()) == []
    assert len(
        judge(
            ROWS,
            ("imports", "start", "latency", "return", "churn", "flood"),
            (0, 1_000, 10_000, 50_000),
        )
    ) == len(GOALS)


def test_table() -> None:
    assert table([]) == ""
    lines = table(judge(ROWS, ("start",), (10_000,))).splitlines()
    assert lines[2].split("|")[1:-1] != []
    assert "holds, aim missed" in lines[2]
