from __future__ import annotations

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


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("p50>99us", True),
        ("p50>100us", False),
        ("p50>=100us", True),
        ("p50<1ms", True),
        ("p50<=0.1ms", True),
        ("p99>0.4ms", False),
        ("p99.99>1h", True),  # lost: above everything
        ("p99.99<1h", False),
        ("max>1ms", None),
        ("late.p99>5us", True),
        ("late.max > 10us", False),
        ("loss>0", True),
        ("loss>1", False),
        ("loss>0.05%", True),
        ("loss>0.1%", False),
        ("loss>=0.1%", True),
        ("stale>0", False),
        ("right<100%", True),
        ("servfail>1%", None),  # nothing was answered
        ("servfail>0", False),
        ("lookup.p50>99ms", True),
        ("lookup.p50>100ms", False),
        ("lookup.p99.99>1h", True),
        ("lookup.max>1s", None),
        ("lookup.failed>2", True),
        ("lookup.failed>1%", False),
        ("lookup.unfinished>0", False),
        ("knee<5000", False),
        ("knee<=5000", True),
        ("knee<5001", True),
        ("knee>4999.5", True),
    ],
)
def test_limit(text: str, met: bool | None) -> None:
    (limit,) = read(text)
    assert is_met(limit, MEASURED) is met


def read(text: str, flag: str = "-fail-if") -> list[Limit]:
    """Where everything is measured that there is."""
    return read_limits(text, verifies=True, has_pods=True, finds_knee=True, flag=flag)


@pytest.mark.parametrize(
    ("text", "met", "rate"),
    [
        ("knee<3000", False, 4000),
        ("knee<4000", False, 4000),
        ("knee<5000", None, None),
        ("knee<8001", True, 8000),
        ("knee>3000", True, 4000),
        ("knee>8000", False, 8000),
        ("knee>=6000", None, None),
    ],
)
def test_a_knee_that_was_not_found(text: str, met: bool | None, rate: float | None) -> None:
    (limit,) = read(text)
    assert (is_met(limit, UNFOUND), knee_rate(limit, UNFOUND)) == (met, rate)
    assert knee_rate(limit, MEASURED) == 5000
    assert is_met(limit, Measured({}, (), ())) is None


def test_percentiles_of_lookups_that_there_are_none_of() -> None:
    (limit,) = read("lookup.p99>1s")
    without = MEASURED._replace(lookups=())
    assert (is_met(limit, without), figure_of(limit, without).us) == (None, None)


def test_which_limit_has_ended_a_run() -> None:
    limits = read_limits("p99>5ms:abort,p99>5ms,p99>50ms:abort", verifies=True)
    said = f"{aborted_by(limits[0])}20.0 ms over 5 s)"
    assert said == "aborted by p99>5ms (20.0 ms over 5 s)"
    assert [has_aborted(each, said) for each in limits] == [True, False, False]
    assert [has_aborted(each, "interrupted") for each in limits] == [False, False, False]
