from heapq import merge
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.questions import order
from hsdns.load.schedule import BURST, EVEN, POISSON, Portion, Schedule, Stage, read_portion

RATES = st.floats(0, 300)
STAGES = st.lists(st.builds(Stage, st.floats(0.1, 2), RATES, RATES), min_size=1, max_size=3)


@given(
    stages=STAGES,
    arrival=st.sampled_from([EVEN, POISSON, BURST]),
    burst=st.integers(1, 9),
    count=st.integers(1, 9),
    weights=st.lists(st.floats(0.1, 9), max_size=4),
    seed=st.integers(0, 9),
)
def test_the_portions_together_are_the_plan(
    stages: list[Stage], arrival: str, burst: int, count: int, weights: list[float], seed: int
) -> None:
    """The same questions at the same times, each once, and as many for each generator but for one."""
    schedule = Schedule(tuple(stages), arrival, burst, seed)
    length = len(weights) or 5
    whole = list(zip(schedule.times(), order(length, weights, seed), strict=False))
    portions = [
        list(
            zip(
                schedule.times(Portion(index, count)),
                Portion(index, count).of(order(length, weights, seed)),
                strict=False,
            )
        )
        for index in range(count)
    ]
    together = merge(*([(time, n) for n, (time, _) in enumerate(each)] for each in portions))
    assert [time for time, _ in together] == [time for time, _ in whole]
    assert [portions[n % count][n // count] for n in range(len(whole))] == whole
    assert {len(each) for each in portions} <= {len(whole) // count, -(-len(whole) // count)}


@pytest.mark.parametrize(
    ("text", "portion"), [("0/8", Portion(0, 8)), ("7/8", Portion(7, 8)), ("0/1", Portion())]
)
def test_read(text: str, portion: Portion) -> None:
    assert read_portion(text) == portion
    assert portion.to_text() == ("" if portion == Portion() else text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("8/8", '-part: "8" in "8/8" is no index from 0 to 7; the first of 8 is 0/8'),
        ("0/0", '-part: "0" in "0/0" is no count from 1 to 1000'),
        ("1", '-part needs an index and a count such as 0/8, found "1"'),
        ("-1/8", '-part needs an index and a count such as 0/8, found "-1/8"'),
        ("1/8/9", '-part needs an index and a count such as 0/8, found "1/8/9"'),
        ("0/99999", '-part needs an index and a count such as 0/8, found "0/99999"'),
    ],
)
def test_bad_portions(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_portion(text)
    assert str(error.value) == sentence


def test_the_whole_is_what_it_was() -> None:
    assert list(islice(Portion().of(order(3, (), 0)), 5)) == [0, 1, 2, 0, 1]
