from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hsdns.load.histogram import Histogram
from hsdns.load.output.exposition import BOUNDS, Picture, buckets, sum_of
from tests.load.test_report import results


def written(picture: Picture) -> dict[tuple[str, ...], float]:
    """Samples by name and values of labels, as Prometheus reads them."""
    text = generate_latest(picture).decode()
    return {
        (
            sample.name,
            *(
                value
                for _, value in sorted(sample.labels.items(), key=lambda each: each[0] != "server")
            ),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_measured() -> None:
    limits = {"b": {"p99>5ms": True, "loss>1%": False, "p50>1s": None}}
    found = written(Picture({"a": results(lost=2), "b": results(stale=True)}, 1.5, limits))
    expected = {
        ("hsdns_load_seconds",): 1.5,
        ("hsdns_load_queries_total", "a", "answered"): 198,
        ("hsdns_load_queries_total", "a", "lost"): 2,
        ("hsdns_load_queries_total", "b", "not_sent"): 0,
        ("hsdns_load_answers_total", "a", "NOERROR"): 198,
        ("hsdns_load_truncated_answers_total", "a"): 0,
        ("hsdns_load_latency_seconds_bucket", "a", "0.0005"): 0,
        ("hsdns_load_latency_seconds_bucket", "a", "0.001"): 198,
        ("hsdns_load_latency_seconds_bucket", "a", "+Inf"): 198,
        ("hsdns_load_latency_seconds_count", "a"): 198,
        ("hsdns_load_latency_seconds_sum", "a"): 0.198,
        ("hsdns_load_lateness_seconds_bucket", "b", "0.0001"): 200,
        ("hsdns_load_generator_limited", "a"): 0,
        ("hsdns_load_verdicts_total", "b", "stale"): 10,
        ("hsdns_load_verdicts_total", "b", "early"): 0,
        ("hsdns_load_stale_age_seconds", "b"): 1.0,
        ("hsdns_load_limit_met", "b", "p99>5ms"): 1,
        ("hsdns_load_limit_met", "b", "loss>1%"): 0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert isnan(found["hsdns_load_limit_met", "b", "p50>1s"])


def test_where_the_generator_was_the_limit() -> None:
    found = written(Picture({"a": results(late=5)}, 2.0))
    assert found["hsdns_load_generator_limited", "a"] == 1
    assert not any(name[0] == "hsdns_load_limit_met" for name in found)


def test_a_picture_does_not_change() -> None:
    measured = results()
    picture = Picture({"a": measured}, 2.0)
    measured.merge(results())
    assert written(picture)["hsdns_load_latency_seconds_count", "a"] == 200


@given(st.lists(st.integers(0, 20_000_000)))
def test_buckets(values: list[int]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    found = buckets(histogram)
    counts = [count for _, count in found]
    assert counts == sorted(counts)
    assert [text for text, _ in found] == [*(f"{bound / 1e6:g}" for bound in BOUNDS), "+Inf"]
    assert counts[-1] == len(values)
    for bound, count in zip(BOUNDS, counts, strict=False):
        # A slot across a bound counts above it.
        assert sum(value <= bound * 0.999 for value in values) <= count
        assert count <= sum(value <= bound for value in values)
    assert sum(values) / 1e6 <= sum_of(histogram) <= sum(values) * 1.001 / 1e6 + 1e-6
