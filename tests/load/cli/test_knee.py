from __future__ import annotations

import pytest

from hsdns.load.cli.knee import find_knee
from hsdns.load.cli.settings import LoadSettings
from hsdns.load.errors import LoadError
from hsdns.load.outcome import LOST
from hsdns.load.questions import Question
from hsdns.load.report import PlanReport
from hsdns.load.results import Results
from hsdns.load.run import FELL_BEHIND, INTERRUPTED
from hsdns.load.schedule import SECOND, Stage
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.cli.test_settings import settings
from tests.load.test_report import PLAN

MS = SECOND // 1000
STAGES = (Stage(10, 400, 400),)


class Server:
    """Answers after 1 ms up to a capacity, and after 9 ms above it; what was asked of it."""

    def __init__(self, capacity: float, *, behind: float = 1e9, interrupts: int = 1000) -> None:
        self.capacity = capacity
        self.behind = behind
        self.interrupts = interrupts
        self.asked: list[LoadSettings] = []

    def __call__(self, asked: LoadSettings) -> tuple[list[Results], PlanReport]:
        self.asked.append(asked)
        (stage,) = asked.schedule.stages
        found = Results([Question(Name.from_text("a.test."), RRType.A, "file")], 0)
        took = 1 if stage.first <= self.capacity else 9
        count = 200 if took == 1 else 199
        outcomes = [(0, 0x8400, 0, n * MS, n * MS, (n + took) * MS) for n in range(count)]
        found.add([*outcomes, *[(0, 0, 0, 0, 0, LOST)] * (200 - count)])
        why = FELL_BEHIND if stage.first > self.behind else ""
        why = INTERRUPTED if len(self.asked) > self.interrupts else why
        found.ended, found.lasted = why, stage.seconds
        return [found], PLAN


def test_the_knee_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server(1000)
    found = find_knee(
        settings("-queries q -find-knee -rate 400 -knee-limits p90<5ms -time 1s"), server
    )
    knee = found.knee
    assert knee.found
    assert knee.holds is not None
    assert knee.breaks is not None
    assert knee.holds <= 1000 < knee.breaks <= knee.holds * 1.011
    assert knee.limits == ["p90>=5ms"]
    assert [step.rate for step in knee.steps][:3] == [400, 800, 1600]
    assert len(knee.steps) == len(server.asked)
    # The run that is reported is the longest one at that rate.
    longest = max(each.seconds for each in knee.steps if each.rate == knee.holds)
    assert (found.servers[0].lasted, longest) == (4, 4)
    # The first step finds the server there; the others may have to wait until it has recovered.
    assert [each.wait for each in server.asked][:2] == [0.0, 10.0]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "400/s for 3 s: held, p50 1.00 ms  p99 1.00 ms  p99.9 1.00 ms, lost 0, generator late by p99 0 us"
    )
    assert lines[2] == (
        "1600/s for 1 s: broken, p50 9.01 ms  p99 9.01 ms  p99.9 lost, lost 1 (0.500%), generator late by p99 0 us"
    )
    assert lines[-1] == knee.sentence


@pytest.mark.parametrize(
    ("after", "sentence", "seconds"),
    [
        (0, "the search did not end", 25.0),
        (2, "the search did not end; the limits hold at 800 queries a second", 13.0),
    ],
)
def test_interrupted(after: int, sentence: str, seconds: float) -> None:
    found = find_knee(settings("-queries q -find-knee -rate 400"), Server(1e9, interrupts=after))
    assert (found.knee.sentence, len(found.knee.steps)) == (sentence, after)
    assert found.servers[0].lasted == seconds


def test_a_server_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """After the first step the search ends with what is known; before it there is nothing to tell."""
    server, count = Server(1e9), 0

    def load(asked: LoadSettings) -> tuple[list[Results], PlanReport]:
        nonlocal count
        count += 1
        if count > 2:
            raise LoadError("nothing listens")
        return server(asked)

    found = find_knee(settings("-queries q -find-knee -rate 400"), load)
    assert found.knee.sentence == "the search did not end; the limits hold at 800 queries a second"
    assert "nothing listens\n" in capsys.readouterr().err
    with pytest.raises(LoadError, match="nothing listens"):
        find_knee(settings("-queries q -find-knee -rate 400"), load)
