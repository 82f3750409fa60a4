"""How long a change took: its beginning as RFC 3339, and the kind of Service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.read_object import programming_in, read_time, read_time_in_python
from hsdns.metrics import PROGRAMMING_BUCKETS, Histogram, Registry


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-11-14T22:13:20Z", 1_700_000_000.0),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000.5),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000.123456),
        ("2023-11-15T00:13:20.25+02:00", 1_700_000_000.25),
        ("2023-11-14T22:13:20", None),
        ("2023-11-14", None),
        ("2023-11-14 22:13:20Z", None),
        ("2023-11-14t22:13:20z", None),
        ("2023-13-14T22:13:20Z", None),
        ("2023-11-14T22:13:20Z\n", None),
        ("0001-01-01T00:00:00Z", None),
        ("20231114T221320Z", None),
        ("soon", None),
        ("", None),
    ],
)
def test_read_time(text: str, seconds: float | None) -> None:
    assert read_time(text) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


DIGITS = r"(19|20)[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?(Z|\+01:00)"


@given(st.from_regex(DIGITS, fullmatch=True) | st.text(max_size=30))
def test_compiled_code_reads_the_same_times(text: str) -> None:
    assert read_time(text) == read_time_in_python(text)


def test_the_histogram_is_that_of_coredns() -> None:
    metrics = Registry()
    programmed = programming_in(metrics)
    programmed("cluster_ip", "2023-11-14T22:13:20Z", 1_700_000_000.25)
    programmed("cluster_ip", "2023-11-14T22:13:20.5Z", 1_700_000_000.0)  # the other clock is ahead
    programmed("cluster_ip", "soon", 1_700_000_000.0)
    (histogram,) = metrics
    assert isinstance(histogram, Histogram)
    assert (
        not histogram.values
    )  # an event is waited for: what it measures is counted at the next scrape
    metrics.fold()
    assert histogram.name == "coredns_kubernetes_dns_programming_duration_seconds"
    assert histogram.labels == ("service_kind",)
    assert (histogram.buckets[0], histogram.buckets[-1]) == (0.001, 524.288)
    assert histogram.buckets == PROGRAMMING_BUCKETS
    cells = histogram.values["cluster_ip",]
    assert (sum(cells[:-1]), cells[0], cells[-1]) == (2, 1, -0.25)
