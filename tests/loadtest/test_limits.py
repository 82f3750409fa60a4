"""When the limits of the benchmarks hold, and what they name exists."""

from pathlib import Path
from typing import Any

import pytest

from loadtest.answering import results as answering
from loadtest.answering.mixes import BY_KEY as MIXES
from loadtest.answering.mixes import DRAIN
from loadtest.answering.results import Results, Sample
from loadtest.demo import BAD, judged, subjects
from loadtest.door import Explained, chance, figures
from loadtest.figures import Spread, Verdict
from loadtest.generator.measure import Row as GeneratorRow
from loadtest.generator.measure import Search, knees_told, lateness
from loadtest.pressure import results as pressure
from loadtest.pressure.clients import Counts
from loadtest.pressure.results import FIGURES, Outcome
from loadtest.pressure.rows import BY_KEY as ROWS
from loadtest.pressure.soak import PRESSERS, REWRITTEN
from loadtest.programs import COREDNS, NATIVE, TITLES
from loadtest.verdicts.__main__ import Ran, Told, judge, judge_freeze
from loadtest.watch import report as watch
from loadtest.watch.report import Row
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


def value_of(word: str) -> float | None:
    return None if word == "-" else float(word)


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the verdict of a figure, its limit and its aim"))  # fmt: skip
def test_verdict(given: str, expected: str) -> None:
    """Behind them why it holds all the same."""
    words = [*given.split(maxsplit=3), ""][:4]
    limit, at_least = words[1].removeprefix(">="), words[1][:1] == ">"
    value, most, aim = map(value_of, (words[0], limit, words[2]))
    verdict = Verdict("", value, most, aim, at_least=at_least, instead=words[3])
    assert f"{'holds' if verdict.holds else 'fails'}: {verdict.word}" == expected


def test_goals_name_what_there_is() -> None:
    sides = {side for goal in answering.GOALS for side in (goal.ours, goal.others)}
    assert {mix for mix, _ in sides} <= {*MIXES}
    assert {server for _, server in sides} <= {*TITLES}
    assert {goal.row for goal in pressure.GOALS} == {*ROWS}
    assert {goal.figure for goal in pressure.GOALS} <= {*FIGURES}
    parts = ("imports", "start", "latency", "return", "churn", "flood")
    assert len(watch.judge([], parts, (0, 1_000, 10_000, 50_000))) == len(watch.GOALS)


def test_answering_judges_what_was_selected() -> None:
    samples = [Sample("hot", each, DRAIN, 0, cpu, 0.0) for each, cpu in (("hsdns", 5.0), ("echo", 4.0))]  # fmt: skip
    verdicts = answering.judge(Results(samples, []), ["hot"], ["hsdns", "echo", "knot"])
    assert [(each.value, each.word) for each in verdicts] == [
        (1.25, "holds, aim missed"),
        (None, "not measured"),
    ]


WATCHED = [
    Row("10,000 Services", "start to ready, s", 1.2, 1.0, 2),
    Row("10,000 Services", "CPU to ready, s", 0.7, 1.0, 2),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident after 10 s, MB", 100.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "resident at the end, MB", 130.0, 1.0, 0),
    Row("5,000 changes/s for 60 s, 10,000 Services", "names wrong at the end", 0.0, 7.0, 0),
]


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "verdicts of a watch"))
def test_watch(given: str, expected: str) -> None:
    verdicts = watch.judge(WATCHED, ("start", "flood", "return"), (10_000,))
    (found,) = [each for each in verdicts if f"{each.goal.figure} | {each.goal.part}" == given]
    assert f"{'-' if found.value is None else found.value} {found.word}" == expected


def pressed(server: str, **more: object) -> Outcome:
    made = Outcome("new-4k", server, Counts(1000, 1000, 1000), cpu=0.1)
    return made._replace(**more)  # type: ignore[arg-type] # whatever a test sets


def pressure_verdicts(*outcomes: Outcome) -> dict[str, tuple[float | None, float | None]]:
    found = pressure.judge(outcomes, ["new-4k"], [each.server for each in outcomes])
    return {each.goal[0].figure: (each.value, each.limit) for each in found}


def test_pressure_judges_what_there_is() -> None:
    peer = pressed(COREDNS, cpu=0.2)
    assert pressure_verdicts(pressed(NATIVE), peer)["CPU µs an answer"] == pytest.approx((100.0, 300.0))  # fmt: skip
    assert "CPU µs an answer" not in pressure_verdicts(pressed(NATIVE))
    ended = pressed(NATIVE, ended="hsdns ended with status 1", events=Spread.of([0.001]))
    assert all(value is None for value, _ in pressure_verdicts(ended, peer).values())
    slow = pressed(NATIVE, events=Spread.of([0.001, 0.150]), judged={"right": 5, "stale": 2})
    found = pressure_verdicts(slow, peer)
    assert found["event worst, ms"] == (150.0, 100.0)
    assert found["stale or wrong answers"] == (2, 0.0)


@pytest.mark.parametrize(("answered", "instead"), [(950, "answered 95%"), (949, "")])
def test_a_share_can_be_enough_instead(answered: int, instead: str) -> None:
    outcome = pressed(NATIVE, row="new-12k", pressing=Counts(1000, 1000, answered, p99_us=9e6))
    found = pressure.judge([outcome, outcome._replace(server=COREDNS)], ["new-12k"], [NATIVE, COREDNS])  # fmt: skip
    assert instead in [each.instead for each in found if each.goal[0].figure == "pressing p99, ms"]


def test_each_row_that_presses_a_server_is_in_the_soak() -> None:
    """Heavier forms of others are not; no server reads the hostile manifests, and CoreDNS has no dashboard."""
    left_out = {"new-12k", "misses", "yaml", "http-heads", "http-streams"}
    assert {*PRESSERS, REWRITTEN} == {*ROWS} - left_out


# By hand: of 40 tosses of a fair coin, 26 or more are heads with a chance of 4.03 %, 25 or more of 7.69 %.
@pytest.mark.parametrize(
    ("given", "is_held"), columns(TABLES, "turns of the door within the limit")
)
def test_the_door_is_judged_by_a_sign_test(given: str, is_held: str) -> None:
    within, turns = map(int, given.split(" of "))
    found = figures(([1], [1]), [Explained(1, 1, 1)], [0.001])
    assert str(found._replace(within=within, turns=turns).holds) == is_held
    assert [chance(heads, 3) for heads in range(4)] == [1, 0.875, 0.5, 0.125]


@pytest.mark.parametrize(("knees", "good"), columns(TABLES, "searches for a knee of 20,000"))
def test_all_searches_have_to_find_the_knee(knees: str, good: str) -> None:
    found = [None if each == "none" else float(each) for each in knees.split()]
    lines, checked = knees_told([Search(f"said {knee}", knee) for knee in found], 20_000)
    assert sum(line.startswith("found: ") for line in lines) == int(good)
    assert checked.holds is (good == "3")


def late(generator: str, us: float | None, server: str = "C echo") -> GeneratorRow:
    return GeneratorRow(server, generator, 20_000, 20_000.0, 1, 0, 50.0, 100.0, us, us, us)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([late("a", 80), late("a", 49, "Knot DNS")], "holds: a at 20,000/s late by 49 µs at p99.9 (limit 50 µs; with Knot DNS)"),
        ([late("a", 2000)], "DOES NOT HOLD: a at 20,000/s late by 2.0 ms at p99.9 (limit 50 µs; with C echo)"),
        ([late("a", None), late("b", 5)], "NOT MEASURED: a at 20,000/s"),
    ],
)  # fmt: skip
def test_limits_of_the_lateness(rows: list[GeneratorRow], line: str) -> None:
    (found,) = lateness(rows, {("a", 20_000): 50.0})
    assert found.line() == line


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the demonstration"))
def test_what_the_demonstration_expects(given: str, expected: str) -> None:
    """A server, its verdicts, and the age of the stalest answer in microseconds."""
    words, _, stalest = given.partition(" | ")
    name, *counted = words.split()
    counts = dict.fromkeys(("right", *BAD), 0) | {
        word: int(number) for word, number in (each.split("=") for each in counted)
    }
    ages = [{"name": "max", "us": None if stalest == "-" else int(stalest)}]
    verdicts = {"counts": counts, "stale_age": ages, "changes": 50}
    (subject,) = [each for each in subjects("coredns") if each.name == name]
    found = judged(subject, {"seconds": 10.0, "verdicts": verdicts})
    assert found.holds is (expected == "as expected")


STARTED = 1_767_268_800.0  # 2026-01-01T12:00:00Z


def report(words: str, since: float | None = None) -> dict[str, Any]:
    given = dict(each.split("=") for each in words.split())
    reasons = {word: int(given.pop(word)) for word in ("behind", "forgotten") if word in given}
    verdicts = {
        "counts": {word: int(given.get(word, 0)) for word in ("right", *BAD, "undecided")},
        "undecided": reasons,
        "changes": 50,
        "stale_age": [{"name": "max", "us": 1_500_000}],
        "old_since_s": since,
        "old_for_s": 1.5,
    }
    server = {"ended": given.get("ended", ""), "verdicts": verdicts}
    return {"started": "2026-01-01T12:00:00.000Z", "servers": [server]}


@pytest.mark.parametrize(("given", "broken"), columns(TABLES, "verified answers of 1,000"))
def test_verified_answers(given: str, broken: str) -> None:
    """What is reported, and the octets of the generator; the one limit that does not hold."""
    words, _, memory = given.partition(" | ")
    checked = judge(Ran(report(words), int(memory)), 1000)
    assert [each.said for each in checked if not each.holds] == ([broken] if broken else [])


@pytest.mark.parametrize(("since", "expected"), columns(TABLES, "a freeze"))
def test_a_freeze_is_found_within_5_ms(since: str, expected: str) -> None:
    error, word = expected.split()
    frozen = Told(STARTED + 9.999, STARTED + 10.002)
    old = None if since == "-" else float(since)
    found, *_ = judge_freeze(Ran(report("stale=7", old), 0, (1.0, 1.0), frozen))
    assert found.holds is (word == "holds")
    assert found.said.startswith("the freeze was not" if error == "-" else f"the freeze was found {error} ms")  # fmt: skip
