from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from hsdns.load.cli.progress import SCREEN, check_live, line, lines, live
from hsdns.load.cli.screen import view
from hsdns.load.outcome import LOST, NOT_SENT
from hsdns.load.questions import Question
from hsdns.load.results import Results
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import RIGHT, STALE, UNDECIDED, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.test_report import results


def test_without_a_terminal_there_is_a_line_every_five_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with live(12.0) as show:
        for tenth in range(130):
            show({"a": Results([], 0)}, tenth / 10)
    assert capsys.readouterr().err == "5/12 s\n10/12 s\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_line_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with live(12.0) as show:
        show({"a": Results([], 0)}, 1.0)
        show({"a": Results([], 0)}, 2.0)
    written = terminal.getvalue()
    assert written.index("1/12 s") < written.index("2/12 s")
    assert "\n1/12" not in written
    assert written.rstrip().endswith(("\x1b[J", "\x1b[K", "\x1b[2K", "\x1b[?25h"))


def test_the_screen_is_drawn_again_now_and_then_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    check_live(SCREEN)
    with live(12.0, SCREEN) as show:
        for hundredth in range(0, 310, 10):
            show({"a": results()}, hundredth / 100)
    written = terminal.getvalue()
    assert "3/12 s" in written
    assert written.index("\x1b[?1049h") < written.index("\x1b[?1049l")
    assert 10 <= written.count("Ctrl-C ends it") <= 18


MS = SECOND // 1000


def busy(*, judged: bool = True) -> Results:
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


def drawn(
    servers: dict[str, Results], seconds: float, length: float, width: int, height: int
) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, no_color=True)
    console.print(view(servers, seconds, length, width, height))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def screens() -> dict[str, list[str]]:
    """What screens.txt shows, by title: lines of a log, and screens."""
    nothing = Results([], 0)
    screen = {
        "a screen": drawn({"hsdns": busy()}, 20.1, 60.0, 80, 24),
        "little room": drawn({"a": busy(judged=False), "b": busy()}, 20.0, 20.0, 30, 12),
    }
    for seconds in (-0.05, 0.0, 0.9):
        screen[f"the first second, at {seconds}"] = drawn({"a": nothing}, seconds, 10.0, 60, 24)
    return {
        "a line": [line(results(lost=2, stale=True), 1.2, 2.0)],
        "lines of the first second": [line(nothing, 0.3, 10.0), line(nothing, -29.7, 10.0)],
        "a line for each server": lines({"a": nothing, "b": nothing}, 0.3, 10.0),
    } | screen


def test_what_is_shown() -> None:
    told = "\n\n".join("\n".join([title, *found]) for title, found in screens().items())
    assert told + "\n" == Path(__file__).with_name("screens.txt").read_text()


@pytest.mark.parametrize("width", [20, 40, 79, 200])
@pytest.mark.parametrize("height", [5, 16, 40])
def test_no_line_is_wider_than_the_terminal(width: int, height: int) -> None:
    lines = drawn({"a": busy(), "b": busy()}, 20.0, 60.0, width, height)
    assert max(map(len, lines)) <= width
