from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hsdns.metrics import (
    MAX_DEFERRED,
    PROGRAMMING_BUCKETS,
    SIZE_BUCKETS,
    SLIM_TIME_BUCKETS,
    TIME_BUCKETS,
    Registry,
)


def samples(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a scraper reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(registry.to_text().decode())
        for sample in family.samples
    }


def test_what_is_counted_later_is_there_at_a_scrape_and_waits_in_small_numbers() -> None:
    registry = Registry()
    counter = registry.counter("coredns_dns_requests_total", ("zone",))
    registry.defer(counter.inc, ("example.org.",), 2)
    assert not counter.values
    registry.fold()
    registry.fold()
    assert counter.values == {("example.org.",): 2}
    for _ in range(MAX_DEFERRED):
        registry.defer(counter.inc, ("example.org.",))
    assert counter.values == {("example.org.",): 2 + MAX_DEFERRED}


@pytest.mark.parametrize(
    ("value", "bucket"),
    [(0.0, "1"), (1.0, "1"), (1.5, "10"), (10.0, "10"), (10.5, "+Inf")],
    ids=["zero", "on-the-first-bound", "between", "on-the-last-bound", "above"],
)
def test_a_histogram_counts_up_to_and_including_its_bounds(value: float, bucket: str) -> None:
    registry = Registry()
    histogram = registry.histogram("x_seconds", (1.0, 10.0), ("server",))
    histogram.observe(value, ("a",))
    found = samples(registry)
    bounds = ["1", "10", "+Inf"]
    assert [found["x_seconds_bucket", (("le", le), ("server", "a"))] for le in bounds] == [
        float(bounds.index(le) >= bounds.index(bucket)) for le in bounds
    ]
    assert found["x_seconds_count", (("server", "a"),)] == 1
    assert found["x_seconds_sum", (("server", "a"),)] == value


def test_a_handler_of_a_user_describes_its_own_metrics() -> None:
    registry = Registry()
    registry.counter("a_total", "Names that a gave.", ("zone",)).inc(("x",))
    registry.gauge("b", "What b is.").set(2)
    registry.histogram("c_seconds", "Times of c.", (1.0,), labels=("zone",)).observe(0.5, ("x",))
    page = registry.to_text().decode()
    for line in (
        "# HELP a_total Names that a gave.",
        'a_total{zone="x"} 1.0',
        "# HELP b What b is.",
        "b 2.0",
        "# HELP c_seconds Times of c.",
        'c_seconds_count{zone="x"} 1.0',
    ):
        assert f"{line}\n" in page


@pytest.mark.parametrize(
    "second",
    [
        lambda registry: registry.counter("a_total"),
        lambda registry: registry.histogram("a_total", (1.0,)),
    ],
    ids=["counter", "histogram"],
)
def test_one_name_is_one_kind(second: Callable[[Registry], object]) -> None:
    registry = Registry()
    registry.gauge("a_total")
    with pytest.raises(AssertionError, match="a_total"):
        second(registry)


@pytest.mark.parametrize(
    ("buckets", "bounds"),
    [
        (TIME_BUCKETS, ["0.00025", "0.0005", "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128",
                        "0.256", "0.512", "1.024", "2.048", "4.096", "8.192"]),
        (SLIM_TIME_BUCKETS, ["0.00025", "0.0025", "0.025", "0.25", "2.5"]),
        (SIZE_BUCKETS, ["0", "100", "200", "300", "400", "511", "1023", "2047", "4095", "8291", "16000", "32000", "48000",
                        "64000"]),
        (PROGRAMMING_BUCKETS[-2:], ["262.144", "524.288"]),
        ((1e6, 1.5e6, 2e6), ["1e+06", "1.5e+06", "2e+06"]),
    ],
    ids=["time", "slim-time", "size", "programming", "above-a-million"],
)  # fmt: skip
def test_bounds_are_written_as_go_writes_them(
    buckets: tuple[float, ...], bounds: list[str]
) -> None:
    """Recording rules and dashboards compare `le` as text."""
    registry = Registry()
    registry.histogram("x", buckets)
    text = registry.to_text().decode()
    found = [line.split('"')[1] for line in text.splitlines() if line.startswith("x_bucket")]
    assert found == [*bounds, "+Inf"]


def test_histogram_takes_counts_that_were_made_elsewhere() -> None:
    registry = Registry()
    one = registry.histogram("one", (1.0, 2.0), ("zone",))
    other = registry.histogram("other", (1.0, 2.0), ("zone",))
    for value in (0.5, 1.0, 1.5, 7.0):
        one.observe(value, ("a.",))
    other.add([1, 0, 1, 7.5], ("a.",))
    other.add([1, 1, 0, 2.5], ("a.",))
    assert one.values == other.values
    assert one.values["a.",] is not other.values["a.",]
