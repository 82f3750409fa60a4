from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.histogram import Histogram
from hsdns.load.output.exposition import BOUNDS, buckets, sum_of


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
