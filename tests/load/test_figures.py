from collections.abc import Sequence

import pytest

from hsdns.load.histogram import (
    LATE,
    LOST,
    NOTHING,
    PERCENTS,
    Figure,
    Histogram,
    latency_figures,
    lateness_figures,
    name_of,
    refusal,
)


def of(values: Sequence[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def shown(figures: Sequence[Figure]) -> dict[str, int | str]:
    return {name_of(each.percent): each.us if each.us is not None else each.why for each in figures}


def test_names() -> None:
    names = ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"]
    assert [name_of(each) for each in PERCENTS] == names


HUNDRED = range(101, 201)


@pytest.mark.parametrize(
    ("lateness", "lost", "figures"),
    [
        ([0] * 100, 0, {"p50": 150, "p99": 199, "max": 200}),
        ([50] * 100, 0, {"p50": 150, "p99": 199, "max": 200}),  # a trifle
        ([0] * 98 + [120] * 2, 0, {"p50": 150, "p99": LATE, "max": LATE}),
        ([0] * 99 + [100], 0, {"p50": 150, "p99": 199, "max": 200}),  # half of it
        ([80] * 100, 0, {"p50": LATE, "p99": 199, "max": 200}),
        ([0] * 100, 100, {"p50": 200, "p99": LOST, "max": LOST}),
    ],
)
def test_latency(lateness: list[int], lost: int, figures: dict[str, int | str]) -> None:
    found = shown(latency_figures(of(HUNDRED), lost, of(lateness)))
    assert {name: found[name] for name in figures} == figures


def test_nothing_stands() -> None:
    refused = latency_figures(of([900]), 0, of([0]), refused=True)
    assert set(shown(refused).values()) == {LATE}
    assert set(shown(latency_figures(of([]), 0, of([]))).values()) == {NOTHING}
    assert set(shown(lateness_figures(of([]))).values()) == {NOTHING}


@pytest.mark.parametrize(
    ("lateness", "sent", "not_sent", "sentence"),
    [
        ([0] * 100, 100, 1, ""),
        ([0] * 98 + [120] * 2, 100, 0, "the generator was the limit: it was late by 120 us at p99, so the latency at p99, p99.9, p99.99, max would be its own and is left out; give a lower -rate, or run it on a machine of its own"),
        ([0] * 100, 98, 2, "the generator was the limit: this machine could not send 2 of 100 queries that were due, so no latency of this run stands; give a lower -rate, or run it on a machine of its own"),
    ],
)  # fmt: skip
def test_refusal(lateness: list[int], sent: int, not_sent: int, sentence: str) -> None:
    late = of(lateness)
    latency = latency_figures(of(HUNDRED), 0, late)
    assert refusal(latency, lateness_figures(late), sent, not_sent) == sentence
