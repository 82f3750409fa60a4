import pytest

from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.answering.results import Results, Sample


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


def test_a_ratio_is_that_of_shared_rounds() -> None:
    assert TWO_MOODS.ratio(("hot", "hsdns"), ("hot", "echo"), DRAIN) == 1.25


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        (("hot", "hsdns"), ("hot", "echo"), (1.25, DRAIN)),
        (("tcp", "hsdns"), ("hot", "hsdns"), (1.5, DNSPERF)),
        (("tcp", "hsdns"), ("tcp", "echo"), None),
    ],
    ids=["both methods", "one method", "nothing"],
)
def test_the_steadier_method_is_taken(
    ours: tuple[str, str], others: tuple[str, str], expected: tuple[float, str] | None
) -> None:
    assert TWO_MOODS.best_ratio(ours, others) == expected
