from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.histogram import Histogram, highest_in, slot_of

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


def of(values: list[int]) -> Histogram:
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
    known: dict[tuple[int, int], tuple[int, int]] = {}
    packed.pack()
    for each in (packed, plain):
        assert (dict(each.items()), each.total, each.highest) == (
            dict(plain.slots),
            len(values),
            plain.highest,
        )
        assert each.pairs(known) == plain.pairs()
        assert each.percentiles((50, 99, 100), lost) == plain.percentiles((50, 99, 100), lost)
    assert packed == plain
    assert len(known) == len(plain.slots)
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
