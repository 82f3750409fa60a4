"""Times as text; golden/ has whole reports."""

import pytest

from hsdns.load.histogram import us_to_text
from hsdns.load.output.words import age, since_begin


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 us"), (999, "999 us"), (1000, "1.00 ms"), (54_321, "54.3 ms"), (543_210, "543 ms"), (2_000_000, "2.00 s")],
)  # fmt: skip
def test_times(us: float, text: str) -> None:
    assert us_to_text(us) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.4, "400 us"), (999.4, "999 ms"), (1000.0, "1.000 s"), (13_456.7, "13.457 s")],
)
def test_ages_have_milliseconds(ms: float, text: str) -> None:
    assert age(ms) == text


def test_times_of_a_run() -> None:
    assert [since_begin(each) for each in (2.0004, 0.0, -3.25)] == ["2.000 s", "0.000 s", "3.250 s before the begin"]  # fmt: skip
