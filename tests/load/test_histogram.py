from collections.abc import Sequence
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.histogram import (
    LATE,
    LOST,
    NOTHING,
    TRIFLE,
    Histogram,
    Percentile,
    highest_in,
    latency_figures,
    percentiles,
    slot_of,
)

VALUES = st.integers(0, 10**9)


@given(value=VALUES)
def test_a_slot_is_narrow(value: int) -> None:
    highest = highest_in(slot_of(value))
    assert value <= highest <= value + value / 1024
    assert slot_of(highest) == slot_of(value)
    assert slot_of(highest + 1) == slot_of(value) + 1


# From HdrHistogram(1, 3_600_000_000, 3): value -> get_highest_equivalent_value.
@pytest.mark.parametrize(
    ("value", "highest"),
    [(1, 1), (2047, 2047), (2048, 2049), (4095, 4095), (4096, 4099), (10_000, 10_007), (1_000_000, 1_000_447), (3_599_999_999, 3_600_809_983)],
)  # fmt: skip
def test_as_in_hdr_histogram(value: int, highest: int) -> None:
    assert highest_in(slot_of(value)) == highest


def of(values: Sequence[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@given(parts=st.lists(st.lists(VALUES, max_size=20), max_size=5), data=st.data())
def test_merged_is_that_of_one_run(parts: list[list[int]], data: st.DataObject) -> None:
    whole = of([value for part in parts for value in part])
    order = data.draw(st.permutations(parts))
    merged = Histogram()
    for part in order:
        merged.merge(of(part))
        if data.draw(st.booleans()):
            merged.pack()
    assert merged == whole
    assert merged.pairs() == whole.pairs()
    assert Histogram(merged.pairs()) == whole
    assert merged.total == sum(map(len, parts))


@given(values=st.lists(VALUES, max_size=20), more=VALUES, lost=st.integers(0, 3))
def test_a_packed_one_is_the_same_until_it_is_changed(
    values: list[int], more: int, lost: int
) -> None:
    packed, plain = of(values), of(values)
    packed.pack()
    for each in (packed, plain):
        assert dict(each.items()) == dict(plain.slots)
        assert (each.total, each.highest) == (len(values), plain.highest)
        assert each.pairs() == plain.pairs()
        assert each.percentiles((50, 99, 100), lost) == plain.percentiles((50, 99, 100), lost)
    assert packed == plain
    for each in (packed, plain):
        each.record(more)
    assert packed == plain == of([*values, more])


@given(
    values=st.lists(VALUES, min_size=1, max_size=50),
    lost=st.integers(0, 20),
    percent=st.sampled_from([0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0]),
)
def test_percentile(values: list[int], lost: int, percent: float) -> None:
    rank = max(1, ceil(round(percent / 100 * (len(values) + lost), 6)))
    ordered = sorted(values)
    expected = highest_in(slot_of(ordered[rank - 1])) if rank <= len(values) else None
    assert of(values).percentile(percent, lost) == expected


def test_percentiles_in_any_order() -> None:
    assert of(list(range(1, 101))).percentiles((99, 50, 100, 1)) == [99, 50, 100, 1]


def test_none() -> None:
    assert (Histogram().percentile(50), Histogram().highest, Histogram().total) == (None, None, 0)
    assert of([7, 5000]).highest == 5003
    assert of([-3]).highest == 0


def shown(figures: Sequence[Percentile]) -> dict[str, int | str]:
    return {each.name: each.us if each.us is not None else each.why for each in figures}


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


def test_a_trifle_is_no_lateness() -> None:
    for took, late, stands in ((90, TRIFLE, True), (90, TRIFLE + 1, False), (0, 90, True)):
        found = shown(latency_figures(of([took]), 0, of([late])))
        assert (found["max"] != LATE) is stands


def test_nothing_stands() -> None:
    withheld = latency_figures(of([900]), 0, of([0]), withheld=True)
    assert set(shown(withheld).values()) == {LATE}
    assert set(shown(latency_figures(of([]), 0, of([]))).values()) == {NOTHING}
    assert set(shown(percentiles(of([]))).values()) == {NOTHING}
