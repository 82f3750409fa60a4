from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from hsdns.load.histogram import LATE, LOST, PERCENTS, Percentile, name_of
from hsdns.load.limits import (
    Limit,
    Measured,
    aborted_by,
    figure_of,
    has_aborted,
    is_met,
    knee_rate,
    read_limits,
)
from tests.support.tables import lines

# p50 100 us, p90 200 us ...; p99.99 is lost, the highest is refused.
LATENCY = [Percentile(name_of(percent), 100 * at) for at, percent in enumerate(PERCENTS, 1)]
LATENCY[-2] = Percentile("p99.99", None, LOST)
LATENCY[-1] = Percentile("max", None, LATE)
LATENESS = [Percentile(name_of(percent), 10) for percent in PERCENTS]
MEASURED = Measured(
    {
        "loss": (1, 1000), "stale": (0, 500), "right": (490, 500), "servfail": (0, 0), "lookup.failed": (3, 300),
        "lookup.unfinished": (0, 300),
    },
    LATENCY,
    LATENESS,
    [structs.replace(figure, us=figure.us and figure.us * 1000) for figure in LATENCY],
    (5000, 5000),
)  # fmt: skip
UNFOUND = MEASURED._replace(knee=(4000, 8000))  # it is between these


def read(text: str) -> Limit:
    """Where everything is measured that there is."""
    (limit,) = read_limits(text, verifies=True, has_pods=True, finds_knee=True)
    return limit


@pytest.mark.parametrize("row", lines(Path(__file__).with_name("limits.txt")))
def test_limit(row: str) -> None:
    """A row that begins with ? is of a knee that was not found."""
    text, expected = row.removeprefix("? ").split(" => ")
    limit, measured = read(text), UNFOUND if row[0] == "?" else MEASURED
    told = str(is_met(limit, measured)).lower()
    if row[0] == "?":
        rate = knee_rate(limit, measured)
        told += "" if rate is None else f" at {rate:g}"
        assert knee_rate(limit, MEASURED) == 5000
        assert is_met(limit, Measured({}, (), ())) is None
    assert told == expected


def test_percentiles_of_lookups_that_there_are_none_of() -> None:
    limit = read("lookup.p99>1s")
    without = MEASURED._replace(lookups=())
    assert (is_met(limit, without), figure_of(limit, without).us) == (None, None)


def test_which_limit_has_ended_a_run() -> None:
    limits = read_limits("p99>5ms:abort,p99>5ms,p99>50ms:abort", verifies=True)
    said = f"{aborted_by(limits[0])}20.0 ms over 5 s)"
    assert said == "aborted by p99>5ms (20.0 ms over 5 s)"
    assert [has_aborted(each, said) for each in limits] == [True, False, False]
    assert [has_aborted(each, "interrupted") for each in limits] == [False, False, False]
