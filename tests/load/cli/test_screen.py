from __future__ import annotations

import io
from random import Random

import pytest
from rich.console import Console

from hsdns.load.cli.screen import Shown, view
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.results import Results
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import RIGHT, STALE, UNDECIDED, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

MS = SECOND // 1000


def results(*, judged: bool = True) -> Results:
    """100 queries in each of 20 seconds, the first ten answered after 1 ms and the others after 30; then some are lost."""
    found = Results([Question(Name.from_text("www.a.test."), RRType.A, "file")], 0)
    for second in range(20):
        for number in range(100):
            planned = second * SECOND + number * 10 * MS
            received = planned + (1 if second < 10 else 30) * MS
            if second >= 15 and number < 2:
                received = LOST
            if second == 19 and number == 99:
                received = NOT_SENT
            flags = 0x8403 if number < 10 else 0x8402 if number == 10 else 0x8400
            found.add([(0, flags, 0, planned, planned + 5000, received)])
    if judged:
        for verdict in (Verdict(RIGHT), Verdict(RIGHT), Verdict(STALE, 1.25), Verdict(UNDECIDED)):
            found.add_verdict(Judged(0, 3.0, 3.0, verdict))
    return found


def drawn(shown: Shown, width: int, height: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, no_color=True)
    console.print(view(shown, width, height))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_what_is_shown() -> None:
    assert drawn(Shown({"hsdns": results()}, 20.1, 60.0), 80, 24) == [
        "━━━━━━━━━━━━━━━━━━───────────────────────────────────── 20/60 s  Ctrl-C ends it",
        "hsdns ──────────────────────────────────────────────────────────────────────────",
        "98 answers/s  ████████████████████",
        "             p50      p90      p95   p99  p99.9  p99.99   max",
        "latency  30.0 ms  30.0 ms  30.0 ms  lost   lost    lost  lost",
        "late by     5 us     5 us     5 us  5 us   5 us    5 us  5 us",
        "NOERROR 1,779 89.0%  SERVFAIL 20 1.0%  NXDOMAIN 190 9.5%  lost 10 0.50%  not se…",
        "right 2  stale 1  undecided 1  by 1.25 s at most",
        "     lost                ░░░░░",
        "    50 ms           ██████████",
        "     1 ms ██████████",
        "          0 s             20 s",
    ]


def test_where_there_is_little_room() -> None:
    """The most important percentiles, the slowest bands, the last seconds, and the servers that fit."""
    found = drawn(Shown({"a": results(judged=False), "b": results()}, 20.0, 20.0), 30, 12)
    assert found == [
        "━━━━━ 20/20 s  Ctrl-C ends it",
        "a ────────────────────────────",
        "98 answers/s  ███████████████",
        "             p50   p99   max",
        "latency  30.0 ms  lost  lost",
        "late by     5 us  5 us  5 us",
        "NOERROR 1,779 89.0%  SERVFAIL…",
        "     lost               ░░░░░",
        "    50 ms          ██████████",
        "     1 ms █████████",
        "          1 s            20 s",
        "no room for b",
    ]


def test_bands_without_room_are_one() -> None:
    found, random = Results([Question(Name.from_text("a.test."), RRType.A, "file")], 0), Random(1)
    for number in range(2000):
        planned = number * 5 * MS
        found.add([(0, 0x8400, 0, planned, planned, planned + 50_000 * 2 ** random.randrange(16))])
    lines = drawn(Shown({"a": found}, 10.0, 10.0), 60, 16)
    assert sum("≤" in line for line in lines) == 1
    assert len(lines) <= 16


@pytest.mark.parametrize("seconds", [-0.05, 0.0, 0.9])
def test_before_the_first_second_is_over(seconds: float) -> None:
    found = drawn(Shown({"a": Results([], 0)}, seconds, 10.0), 60, 24)
    assert found[0].endswith(f" {max(seconds, 0):.0f}/10 s  Ctrl-C ends it")
    assert found[2:] == [
        "0 answers/s",
        "         p50  p99  max",
        "latency    -    -    -",
        "late by    -    -    -",
        "lost 0",
    ]


@pytest.mark.parametrize("width", [20, 40, 79, 200])
@pytest.mark.parametrize("height", [5, 16, 40])
def test_no_line_is_wider_than_the_terminal(width: int, height: int) -> None:
    lines = drawn(Shown({"a": results(), "b": results()}, 20.0, 60.0), width, height)
    assert max(map(len, lines)) <= width
