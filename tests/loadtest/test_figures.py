"""How figures are computed, which answers are right, stale or wrong, and what a soak has found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.answering.results import Results, Sample
from loadtest.bench import as_data
from loadtest.figures import percentile, ratio
from loadtest.generator.measure import Row, combined
from loadtest.pressure.clients import Counts
from loadtest.pressure.judge import Answer, History
from loadtest.pressure.machine import Machine, lateness, without
from loadtest.pressure.results import Honest, Outcome
from loadtest.pressure.soak_result import Applied, Bounds, Soak
from loadtest.programs import NATIVE
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "percentiles"))
def test_percentile(given: str, expected: str) -> None:
    """Values, and a share."""
    listed, _, share = given.partition(" | ")
    _, dots, last = listed.partition("..")
    values = [*range(1, int(last) + 1)] if dots else [*map(float, listed.split())]
    assert percentile(values, float(share)) == float(expected)


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "ratios"))
def test_ratio(given: str, expected: str) -> None:
    ours, peers = (None if each == "-" else float(each) for each in given.split())
    assert ratio(ours, peers) == (None if expected == "-" else float(expected))


def results(*rows: tuple[str, str, str, int, float]) -> Results:
    return Results([Sample(*row, lost=0.0) for row in rows], [])


# The machine is twice as slow in round 1; the third round of one server is missing.
TWO_MOODS = results(
    ("hot", "hsdns", DRAIN, 0, 5.0),
    ("hot", "echo", DRAIN, 0, 4.0),
    ("hot", "hsdns", DRAIN, 1, 10.0),
    ("hot", "echo", DRAIN, 1, 8.0),
    ("hot", "hsdns", DRAIN, 2, 99.0),
    ("hot", "hsdns", DNSPERF, 0, 6.0),
    ("tcp", "hsdns", DNSPERF, 0, 9.0),
)


def test_a_figure_is_the_median_of_its_rounds() -> None:
    figures = [TWO_MOODS.figure("hot", "hsdns", DRAIN, each) for each in ("cpu_us", "rate")]
    assert (figures, TWO_MOODS.figure("hot", "hsdns", DRAIN, "cpu_us", min)) == ([10.0, None], 5.0)


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        (("hot", "hsdns"), ("hot", "echo"), (1.25, DRAIN)),
        (("tcp", "hsdns"), ("hot", "hsdns"), (1.5, DNSPERF)),
        (("tcp", "hsdns"), ("tcp", "echo"), None),
    ],
    ids=["both methods", "one method", "nothing"],
)
def test_a_ratio_is_that_of_shared_rounds_by_the_steadier_method(
    ours: tuple[str, str], others: tuple[str, str], expected: tuple[float, str] | None
) -> None:
    assert TWO_MOODS.best_ratio(ours, others) == expected


QUIET = Counts(100, 100, 100, p99_us=400, worst_us=600, all_p99_us=500)
FAST = Honest(QUIET, QUIET)
SLOW = Honest(QUIET, Counts(100, 100, 100, p99_us=900, worst_us=2_500, all_p99_us=1_000))
DROPPED = Honest(QUIET, Counts(100, 100, 90, p99_us=300, worst_us=400, all_p99_us=1e6))
FAILED = Honest(QUIET, Counts(100, 100, 100, 20, p99_us=300, worst_us=400, all_p99_us=300))
PRESSED = Outcome("fair", NATIVE, Counts(0, 0, 0))


@pytest.mark.parametrize(
    ("clients", "answered", "slowdown", "worst"),
    [
        ((FAST, FAST, FAST), 1.0, 1.0, 0.6),
        ((FAST, FAST, SLOW), 1.0, 2.0, 2.5),
        ((FAST, DROPPED, SLOW), 0.9, 2000.0, 1000.0),
        ((FAILED, FAST, FAST), 0.8, 1.0, 0.6),
        ((), None, None, None),
    ],
    ids=["fast", "slow", "drops", "fails", "none"],
)
def test_a_server_that_drops_honest_queries_is_not_fast(
    clients: tuple[Honest, ...], answered: float | None, slowdown: float | None, worst: float | None
) -> None:
    outcome = PRESSED._replace(clients={str(at): each for at, each in enumerate(clients)})
    figures = ("honest answered", "honest p99 / quiet p99", "honest worst, ms")
    assert tuple(map(outcome.figure, figures)) == pytest.approx((answered, slowdown, worst))


class Scripted:
    """A clock that each wait moves on: by what it waits, and by what it is late."""

    def __init__(self, late: list[float]) -> None:
        self.now = 0.0
        self._late = late

    def wait(self, seconds: float) -> bool:
        if not self._late:
            return True
        self.now += seconds + self._late.pop(0)
        return False


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "what a process is late, and what is noted of it, and gaps, in milliseconds"))  # fmt: skip
def test_lateness(given: str, expected: str) -> None:
    clock = Scripted([int(each) / 1e3 for each in given.split()])
    late, gaps = lateness(clock.wait, lambda: clock.now)
    noted, ends = ([int(each) / 1e3 for each in part.split()] for part in expected.split("|"))
    assert late == pytest.approx(noted)
    assert [*sum(gaps, ())] == pytest.approx(ends)


@pytest.mark.parametrize(("given", "seconds"), columns(TABLES, "time from 2 to 5 without gaps"))
def test_time_without_gaps(given: str, seconds: str) -> None:
    gaps = [tuple(map(float, each.split("-"))) for each in given.split()]
    assert without(gaps, 2.0, 5.0) == pytest.approx(float(seconds))  # type: ignore[arg-type] # pairs


def test_the_median_of_what_every_turn_tells() -> None:
    first = Row("C echo", "a", 20_000, 20_000.0, 1, 0, 50.0, 100.0, 5, 5, 5)
    slow = first._replace(cpu=3, late_p999=2000)
    found = combined([first, slow, first._replace(cpu=2, p99=None, late_p999=7)])
    assert (found.cpu, found.late_p999, found.p50, found.p99) == (2, 7, 50, None)


# --- answers ---


OLD, NEW = frozenset("ab"), frozenset("bc")


def changed_at_10_and_20() -> History:
    history = History({"web-0": OLD, "web-1": OLD})
    history.change(10.0, "web-0", "a", "c")
    history.change(20.0, "web-0", "b", "d")
    return history


@pytest.mark.parametrize(
    ("given", "word"),
    columns(TABLES, "answers of a Service that is ab until 10 and bc until 20, then cd"),
)
def test_answer(given: str, word: str) -> None:
    """The times of a query and its answer, and the addresses."""
    asked, received, letters = given.split()
    history = changed_at_10_and_20()
    addresses = None if letters == "-" else frozenset(letters)
    assert history.judge(Answer("web-0", float(asked), float(received), addresses))[0] == word
    assert history.counts == {word: 1}


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "the age of the stalest answer, and the delays shown at the end of that Service"))  # fmt: skip
def test_delays(given: str, expected: str) -> None:
    """When a query was asked that was answered half a second later, and the addresses."""
    history, shown = changed_at_10_and_20(), list[float]()
    for asked, _, letters in (each.partition(":") for each in given.split()):
        addresses = None if letters == "-" else frozenset(letters)
        shown += history.judge(Answer("web-0", float(asked), float(asked) + 0.5, addresses))[1]
    age, *delays = map(float, expected.split())
    assert (history.worst_age, shown) == (age, delays)


def test_only_timed_services_have_delays() -> None:
    history = History({"a": ["10.0.0.1"], "b": ["10.0.0.1"]}, ["b"])
    for service in ("a", "b"):
        history.change(1.0, service, "10.0.0.1", "10.0.0.2")
    shown = [
        history.judge(Answer(service, 3.0, 3.5, frozenset({"10.0.0.2"}))) for service in ("a", "b")
    ]
    assert shown == [("right", []), ("right", [2.5])]
    history.change(4.0, "a", "10.0.0.2", "10.0.0.3")
    assert history.unshown(5.0, 6.0) == []
    assert history.judge(Answer("a", 5.0, 5.1, frozenset({"10.0.0.2"}))) == ("stale", [])


# --- a soak ---

MB = 1_000_000
TO_4, TO_16 = Bounds(0.002, 0.004), Bounds(0.008, 0.016)
TO_64, TO_256 = Bounds(0.032, 0.064), Bounds(0.128, 0.256)
APPLIED = Applied(360_000, TO_4, TO_64)
MACHINE = Machine(360_000, 0.002, 0.03, 0.001, 0.02)
STOPPED = MACHINE._replace(gaps=[(0.9, 1.1), (1.15, 1.25), (3.0, 3.1)])
GOOD = Soak(
    "hsdns", 1800, 360_000, {"right": 1_000_000}, 0.0, 0.004, 0.02, APPLIED, 1.0,
    [(float(second), 90 * MB) for second in range(0, 1800, 2)], 400.0, 900.0, 1.0,
    MACHINE,
)  # fmt: skip


def growing(seconds: int, an_hour: int) -> list[tuple[float, int]]:
    return [(float(at), 90 * MB + at * an_hour // 3600) for at in range(0, seconds, 2)]


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "memory over seconds that grows by MB an hour"))  # fmt: skip
def test_memory(given: str, expected: str) -> None:
    seconds, an_hour = map(int, given.split())
    found = GOOD._replace(memory=growing(seconds, an_hour * MB))
    assert ("flat" if found.is_flat else "grows") == expected


@pytest.mark.parametrize(("changed", "sentence"), columns(TABLES, "a soak that is changed, and what does not hold"))  # fmt: skip
def test_faults(changed: str, sentence: str) -> None:
    assert GOOD._replace(**json.loads(changed)).faults == [sentence]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"applied": APPLIED._replace(p99=TO_64)},
         "99 % of 360,000 events were applied within 64 ms, and all within 64 ms"),
        ({"applied": Applied(360_000, TO_16, TO_256)},
         "99 % of 360,000 events were applied within 16 ms, and all within 256 ms"),
        ({"applied": Applied(0, None, None, "/metrics says no more")}, "/metrics says no more"),
        ({"shown_worst": 0.301, "slow": [(1.0, 1.301), (1.2, 1.3)], "machine": STOPPED}, "an event was shown after 101 ms, without the machine's own delays"),
        ({"memory": growing(1800, 30 * MB)}, "memory rises by 30 MB an hour in the second half"),
        ({"memory": [(0.0, 90 * MB), (2.0, 179 * MB), *[(float(at), 90 * MB) for at in range(4, 60, 2)]]},
         "memory was 179 MB, and may be 178 MB"),
    ],
)  # fmt: skip
def test_faults_of_times(changed: dict[str, object], sentence: str) -> None:
    assert GOOD._replace(**changed).faults == [sentence]  # type: ignore[arg-type] # whatever a row has


def bounds(word: str) -> Bounds | None:
    return None if word == "-" else Bounds(*(int(ms) / 1e3 for ms in word.split("-")))


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "a bucket, and what was shown, in milliseconds"))  # fmt: skip
def test_where_a_bucket_cannot_tell_what_was_shown_does(given: str, expected: str) -> None:
    """The buckets of the 99th percentile and of the worst, and what was shown of both."""
    first, last, *shown = given.split()
    applied = Applied(9, bounds(first), bounds(last), "why" if first == "-" else "")
    p99, worst = (None if each == "-" else int(each) / 1e3 for each in shown)
    soak = GOOD._replace(applied=applied, shown_p99=p99, shown_worst=worst)
    (check,) = [each for each in soak.checks if "applied" in each.figure]
    assert f"{'holds' if check.holds else 'fails'} {check.measured}" == expected


def test_a_good_soak_has_no_faults() -> None:
    assert GOOD.faults == []
    assert all(check.holds for check in GOOD.checks)
    found = json.loads(json.dumps(as_data(GOOD), allow_nan=False))
    assert (found["applied"]["p99"]["most"], found["machine"]["worst"]) == (0.004, 0.03)
