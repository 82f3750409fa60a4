"""When a queue of misses is bounded, to how many, and when it is free again."""

from __future__ import annotations

import pytest

from hsdns.fastpath.miss_queue import CAPACITY
from hsdns.server.queue_bound import (
    GROWING,
    LEAST,
    MAX_WAIT,
    PERIOD,
    QUIET,
    RECENT,
    STANDING,
    QueueBound,
)

TURN = PERIOD / 10


class Load:
    """Turns of a loop that answers `rate` misses a second, whose queue has `left`, of a scripted clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.dropped = 0
        self.under_test = QueueBound(self.now)

    def last(
        self, seconds: float, rate: int, left: int, drops: int = 0, grows: int = 0
    ) -> list[int]:
        """The capacities that were set; `grows`: misses a second by which the queue becomes longer."""
        found = []
        for _ in range(round(seconds / TURN)):
            self.now += TURN
            left += round(grows * TURN)
            self.dropped += drops
            found.append(self.under_test.note(self.now, int(rate * TURN), left, self.dropped))
        return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("seconds", "rate", "left", "expected"),
    [
        pytest.param(60, 8_000, 0, [], id="never-full"),
        pytest.param(STANDING - 2 * PERIOD, 8_000, 9_000, [], id="a-burst"),
        pytest.param(STANDING + PERIOD, 8_000, 9_000, [int(8_000 * MAX_WAIT)], id="overload"),
        pytest.param(STANDING + PERIOD, 100, 9_000, [LEAST], id="slow-answers"),
    ],
)
def test_bound(seconds: float, rate: int, left: int, expected: list[int]) -> None:
    assert Load().last(seconds, rate, left) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("before", [0, 300])
@pytest.mark.parametrize("rest", [PERIOD, STANDING - PERIOD, 30.0])
def test_a_burst_after_a_rest_is_a_burst(before: int, rest: float) -> None:
    """The clients rested, or the process was stopped, so that no iteration noted that nothing waited."""
    load = Load()
    load.last(STANDING / 10, 8_000, before)
    load.now += rest
    if before and rest < STANDING:
        rest_of_standing = STANDING - rest - STANDING / 10
    else:
        rest_of_standing = STANDING
    assert load.last(rest_of_standing - 2 * PERIOD, 8_000, 250) == []
    assert load.last(4 * PERIOD, 8_000, 250) == [pytest.approx(8_000 * MAX_WAIT, abs=1)]


@pytest.mark.parametrize(
    ("seconds", "left", "grows", "expected"),
    [
        pytest.param(GROWING * PERIOD + PERIOD, 300, 4_000, [int(8_000 * MAX_WAIT)], id="grows"),
        pytest.param(GROWING * PERIOD - PERIOD, 300, 20_000, [], id="a-burst-grows-for-less"),
        pytest.param(GROWING * PERIOD + PERIOD, 9_000, -4_000, [], id="a-burst-is-answered"),
        pytest.param(GROWING * PERIOD + PERIOD, 0, 200, [], id="nobody-waits-for-long"),
    ],
)
def test_a_queue_that_grows_is_bounded_sooner(
    seconds: float, left: int, grows: int, expected: list[int]
) -> None:
    found = Load().last(seconds, 8_000, left, grows=grows)
    assert found == pytest.approx(expected, abs=1)


def test_bound_follows_the_rate_while_it_drops_and_is_lifted_when_it_does_not() -> None:
    load = Load()
    load.last(STANDING + PERIOD, 8_000, 9_000)
    assert load.last(2 * PERIOD, 7_000, 100, drops=1)[-1:] == pytest.approx(
        [7_000 * MAX_WAIT], abs=1
    )
    load.last(PERIOD, 1_000, 0)  # the period in which the drops end
    # Few are asked now: no measure of the rate.
    assert load.last(QUIET - 3 * PERIOD, 1_000, 0) == []
    assert load.last(4 * PERIOD, 1_000, 0) == [CAPACITY]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(RECENT / 2, [int(8_000 * MAX_WAIT)], id="soon-again"),
        pytest.param(RECENT, [], id="long-after"),
    ],
)
def test_what_was_overloaded_just_now_is_bounded_sooner(later: float, expected: list[int]) -> None:
    load = Load()
    load.last(STANDING + PERIOD, 8_000, 9_000)
    assert load.last(QUIET + PERIOD, 1_000, 0) == [CAPACITY]
    load.last(later, 1_000, 0)
    assert load.last(3 * PERIOD, 8_000, 9_000) == pytest.approx(expected, abs=1)
