import pytest

from loadtest.answering.programs import NATIVE
from loadtest.pressure.clients import Counts
from loadtest.pressure.results import Honest, Outcome

QUIET = Counts(100, 100, 100, p99_us=400, worst_us=600, all_p99_us=500)
FAST = Honest(QUIET, QUIET)
SLOW = Honest(QUIET, Counts(100, 100, 100, p99_us=900, worst_us=2_500, all_p99_us=1_000))
DROPPED = Honest(QUIET, Counts(100, 100, 90, p99_us=300, worst_us=400, all_p99_us=1e6))
FAILED = Honest(QUIET, Counts(100, 100, 100, 20, p99_us=300, worst_us=400, all_p99_us=300))


@pytest.mark.parametrize(
    ("clients", "answered", "slowdown", "worst"),
    [
        ((FAST, FAST, FAST), 1.0, 1.0, 0.6),
        ((FAST, SLOW, None), 1.0, 2.0, 2.5),
        ((FAST, FAST, SLOW), 1.0, 2.0, 2.5),
        ((FAST, DROPPED, SLOW), 0.9, 2000.0, 1000.0),
        ((FAILED, FAST, FAST), 0.8, 1.0, 0.6),
        ((None, None, None), None, None, None),
    ],
    ids=["fast", "slow", "slow on the chain", "drops", "fails", "none"],
)
def test_a_server_that_drops_honest_queries_is_not_fast(
    clients: tuple[Honest | None, ...],
    answered: float | None,
    slowdown: float | None,
    worst: float | None,
) -> None:
    outcome = Outcome("fair", NATIVE, Counts(0, 0, 0), *clients)  # type: ignore[arg-type] # three of them
    figures = ("honest answered", "honest p99 / quiet p99", "honest worst, ms")
    assert tuple(map(outcome.figure, figures)) == pytest.approx((answered, slowdown, worst))


@pytest.mark.parametrize(
    ("late", "slowdown"),
    [(0.0, 2.0), (0.0003, 2.0), (0.0008, 1.25), (0.002, 0.5)],
    ids=["on other cores", "less than quiet", "more than quiet", "more than under pressure"],
)
def test_what_any_process_waits_is_not_the_servers_delay(late: float, slowdown: float) -> None:
    outcome = Outcome("fair", NATIVE, Counts(0, 0, 0), SLOW, late=late)
    assert outcome.figure("honest p99 / quiet p99") == pytest.approx(slowdown)
