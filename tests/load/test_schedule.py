from __future__ import annotations

from heapq import merge

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.questions import order
from hsdns.load.schedule import (
    BURST,
    EVEN,
    POISSON,
    SECOND,
    Portion,
    Schedule,
    Stage,
    read_start,
)

MS = SECOND // 1000


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        (Schedule((Stage(1, 4, 4),)), [0, 250, 500, 750]),
        (Schedule((Stage(1, 2, 2), Stage(1, 0, 0), Stage(1, 1, 1))), [0, 500, 2000]),
        (Schedule((Stage(1, 4, 4),), BURST, 2), [0, 0, 500, 500]),
        (Schedule((Stage(2, 0, 4),)), [0, 1000, 1414, 1732]),
        (Schedule((Stage(2, 4, 0),)), [0, 268, 586, 1000]),
        (Schedule((Stage(0.5, 3, 3),)), [0, 333]),
    ],
    ids=["even", "steps", "bursts", "up", "down", "a part of a query"],
)
def test_times(schedule: Schedule, times: list[int]) -> None:
    assert [round(time / MS) for time in schedule.times()] == times


STAGES = st.lists(
    st.builds(Stage, st.floats(0.01, 20), st.floats(0, 300), st.floats(0, 300)),
    min_size=1,
    max_size=4,
).map(tuple)


@given(stages=STAGES, burst=st.integers(1, 7), arrival=st.sampled_from([EVEN, BURST]))
def test_as_many_as_the_area_at_any_time(
    stages: tuple[Stage, ...], burst: int, arrival: str
) -> None:
    schedule = Schedule(stages, arrival, burst if arrival == BURST else 1)
    times = list(schedule.times())
    assert times == sorted(times)
    assert all(0 <= time <= round(schedule.seconds * SECOND) for time in times)
    assert abs(len(times) - sum(stage.area for stage in stages)) <= schedule.burst + 1e-6
    begin = area = 0.0
    for stage in stages:
        begin, area = begin + stage.seconds, area + stage.area
        before = sum(time <= begin * SECOND for time in times)
        assert abs(before - area) <= schedule.burst + 1


@given(rate=st.integers(1, 2000), seed=st.integers(0, 1000))
def test_poisson_has_the_rate_and_depends_on_the_seed_alone(rate: int, seed: int) -> None:
    schedule = Schedule((Stage(1, rate, rate),), POISSON, seed=seed)
    times = list(schedule.times())
    assert times == sorted(times)
    assert times == list(schedule.times())
    assert abs(len(times) - rate) <= 8 * rate**0.5 + 8  # eight standard deviations


RATES = st.floats(0, 300)
SOME_STAGES = st.lists(st.builds(Stage, st.floats(0.1, 2), RATES, RATES), min_size=1, max_size=3)


@given(
    stages=SOME_STAGES,
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


NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:01.5+00:00", NOON + 1.5),
        ("2026-01-01T13:00:10+01:00", NOON + 10),
        ("+0s", NOON),
        ("+90s", NOON + 90),
        ("+1m30s", NOON + 90),
    ],
)
def test_start(text: str, start: float) -> None:
    assert read_start(text, NOON) == start


def test_from_the_start_of_a_job() -> None:
    assert read_start("+60s", NOON + 20, origin=NOON) == NOON + 60
    with pytest.raises(LoadError, match=r"that was at 2026-01-01T12:00:10Z, 10\.2 s ago; "):
        read_start("+10s", NOON + 20.25, origin=NOON)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("2026-01-01T11:59:59Z", "-start-at 2026-01-01T11:59:59Z: that was at 2026-01-01T11:59:59Z, 1.0 s ago; give a later time, the same to all generators"),
        ("2026-01-03T12:00:00Z", "-start-at 2026-01-03T12:00:00Z: that is at 2026-01-03T12:00:00Z, more than a day from now"),
    ],
)  # fmt: skip
def test_bad_starts(text: str, sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_start(text, NOON)
    assert str(error.value) == sentence
