from random import Random

import pytest

from hsdns.apiserver.backoff import FIRST_PAUSE, HEALTHY, MAX_PAUSE, Backoff


class Fixed(Random):
    """A Random that always returns the same value."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.mark.parametrize(
    ("chance", "pauses"),
    [
        pytest.param(0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], id="least"),
        pytest.param(0.5, [1.2, 2.4, 4.8, 9.6, 19.2, 30.0, 30.0], id="middle"),
        pytest.param(0.999, [1.5992, 3.1984], id="most"),
    ],
)
def test_pauses_double_up_to_the_maximum(chance: float, pauses: list[float]) -> None:
    backoff, now = Backoff(Fixed(chance)), 100.0
    for pause in pauses:
        assert backoff.pause(now) == pytest.approx(pause)
        now += pause


def test_the_backoff_is_reset_after_two_minutes() -> None:
    backoff = Backoff(Fixed(0.0))
    for now in range(8):
        backoff.pause(float(now))
    assert backoff.pause(7.0 + MAX_PAUSE + HEALTHY) == MAX_PAUSE
    assert backoff.pause(7.0 + 3 * MAX_PAUSE + 3 * HEALTHY) == FIRST_PAUSE


def test_pauses_after_a_return_stay_short_while_the_server_starts() -> None:
    backoff = Backoff(Fixed(0.0))
    for now in range(8):
        backoff.pause(float(now))
    backoff.begin_anew(100.0)
    assert [backoff.pause(100.0 + at) for at in (0, 1, 14, 15, 16)] == [0.8, 0.8, 0.8, 0.8, 1.6]
