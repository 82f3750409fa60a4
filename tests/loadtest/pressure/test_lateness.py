"""How late a process is that does nothing else, and what /proc/stat says of the machine."""

from __future__ import annotations

import pytest

from loadtest.pressure.lateness import LONG, Control, CpuTimes, lateness, without
from loadtest.pressure.server import server_cores

STAT = "cpu  100 1 50 800 20 2 7 20 5 0\ncpu0 1 2 3\n"


def test_the_times_of_all_cores() -> None:
    assert CpuTimes.of(STAT) == CpuTimes(idle=820, stolen=20, all=1000)


class Scripted:
    """A clock that each wait moves on: by what it waits, and by what it is late."""

    def __init__(self, late: list[float]) -> None:
        self.now = 0.0
        self._late = late

    def wait(self, seconds: float) -> bool:
        if not self._late:
            return True
        self.now += seconds + self._late.pop(0)
        return False


@pytest.mark.parametrize(
    ("late", "noted", "gaps"),
    [
        ([], [], []),
        ([0.0, 0.001, 0.002], [0.0, 0.001, 0.002], []),
        ([0.012, 0.0], [0.012, 0.007, 0.002, 0.0], []),  # three were due while it waited
        ([0.0, 0.021], [0.0, 0.021, 0.016, 0.011, 0.006, 0.001], [(0.01, 0.031)]),
    ],
)
def test_lateness(late: list[float], noted: list[float], gaps: list[tuple[float, float]]) -> None:
    clock = Scripted(late)
    found = lateness(clock.wait, lambda: clock.now)
    assert found[0] == pytest.approx(noted)
    assert [*sum(found[1], ())] == pytest.approx([*sum(gaps, ())])


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ([], 3.0),
        ([(0.0, 1.0), (5.0, 6.0)], 3.0),
        ([(1.5, 2.5)], 2.5),
        ([(2.5, 3.0), (4.0, 9.0)], 1.5),
        ([(0.0, 9.0)], 0.0),
    ],
)
def test_time_without_gaps(gaps: list[tuple[float, float]], expected: float) -> None:
    assert without(gaps, 2.0, 5.0) == pytest.approx(expected)


def test_the_process_says_what_it_noted() -> None:
    with Control(server_cores()[0]) as control:
        found = control.result()
    assert found.p99 <= found.worst < 60
    assert all(came - due >= LONG for due, came in found.gaps)
    assert 0 <= found.stolen <= 1
    assert 0 <= found.idle <= 1
