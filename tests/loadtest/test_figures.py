"""How figures are computed: percentiles, medians, ratios, slopes, and what a process is late."""

from pathlib import Path

import pytest

from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.answering.results import Results, Sample
from loadtest.figures import percentile, ratio
from loadtest.generator.measure import Row, combined
from loadtest.pressure.clients import Counts
from loadtest.pressure.machine import lateness, without
from loadtest.pressure.results import Honest, Outcome
from loadtest.programs import NATIVE
from loadtest.watch.api_servers import Change
from loadtest.watch.parts import Sample as Watched
from loadtest.watch.parts import match
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
    figures = TWO_MOODS.figures("hot", "hsdns", DRAIN)
    assert figures is not None
    assert (figures.cpu_us, figures.min_us, figures.rounds, figures.rate) == (10.0, 5.0, 3, None)


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


@pytest.mark.parametrize(
    ("given", "delays"), columns(TABLES, "a watched Service that changes at 10")
)
def test_the_delay_of_a_change(given: str, delays: str) -> None:
    """A Service, and from when to when it is watched."""
    service, began, ended = given.split()
    change = Change(10.0, "team-0", "web-1", "10.0.0.1", "172.16.0.1")
    found = match([change], [Watched(service, float(began), float(ended), None)])
    assert found == [*map(float, delays.split())]
