import pytest

from loadtest.figures import Spread, median_of_known, percentile, ratio


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        pytest.param([5.0], 0.99, 5.0, id="one value is every percentile"),
        pytest.param([3.0, 1.0, 2.0], 0.0, 1.0, id="none at all is the smallest"),
        pytest.param([3.0, 1.0, 2.0], 1.0, 3.0, id="all is the largest"),
        pytest.param(list(range(1, 101)), 0.99, 99, id="99 of 100"),
        pytest.param(list(range(1, 101)), 0.5, 50, id="half of 100"),
        pytest.param([1.0, 2.0, 3.0, 4.0], 0.9, 4.0, id="between two values it is the upper"),
    ],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_spread() -> None:
    assert Spread.of([4.0, 1.0, 3.0, 2.0]) == Spread(4, 2.5, 4.0, 4.0, 4.0)


@pytest.mark.parametrize("summary", [Spread.of, lambda none: percentile(none, 0.5)])
def test_nothing_has_no_summary(summary) -> None:  # type: ignore[no-untyped-def] # both take a list
    with pytest.raises(ValueError, match="no values"):
        summary([])


@pytest.mark.parametrize(
    ("ours", "peers", "expected"),
    [
        pytest.param(1.0, 2.0, 0.5, id="both"),
        pytest.param(None, 2.0, None, id="without ours"),
        pytest.param(1.0, None, None, id="without the peer's"),
        pytest.param(1.0, 0.0, None, id="the peer's is nothing"),
        pytest.param(1.0, -1.0, None, id="the peer's is negative"),
        pytest.param(-1.0, 2.0, -0.5, id="ours is negative"),
    ],
)
def test_ratio(ours: float | None, peers: float | None, expected: float | None) -> None:
    assert ratio(ours, peers) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, None, 3.0], 2.0), ([None], None), ([], None)],
    ids=["some", "none there", "none"],
)
def test_middle(values: list[float | None], expected: float | None) -> None:
    assert median_of_known(values) == expected
