import io
import sys

import pytest

from hsdns.cli.flags import FlagError
from hsdns.load.cli.progress import NONE, SCREEN, check_live, line, lines, live
from hsdns.load.results import Results
from hsdns.load.verify.judge import RIGHT, STALE
from tests.load.test_report import results


def test_line() -> None:
    found = results(lost=2, stale=True)
    assert line(found, 1.2, 2.0) == (
        "1/2 s, 98 answers/s, p50 1.00 ms p99 1.00 ms (late 0 us), NOERROR 198, lost 2, stale 10, 189 right"
    )
    assert RIGHT in line(found, 1.2, 2.0)
    assert STALE in line(found, 1.2, 2.0)


def test_line_of_the_first_second() -> None:
    assert line(Results([], 0), 0.3, 10.0) == "0/10 s"
    assert line(Results([], 0), -29.7, 10.0) == "begins in 30 s"


def test_a_line_for_each_server() -> None:
    servers = {"a": Results([], 0), "b": Results([], 0)}
    assert lines(servers, 0.3, 10.0) == ["a: 0/10 s", "b: 0/10 s"]


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


@pytest.mark.parametrize("has_rich", [True, False])
def test_on_a_terminal_the_line_is_written_over(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    if not has_rich:
        monkeypatch.setattr("hsdns.load.cli.progress.LIBRARY", "no_such_library")
    with live(12.0) as show:
        show({"a": Results([], 0)}, 1.0)
        show({"a": Results([], 0)}, 2.0)
    written = terminal.getvalue()
    assert written.index("1/12 s") < written.index("2/12 s")
    assert "\n1/12" not in written
    assert written.rstrip().endswith(("\x1b[J", "\x1b[K", "\x1b[2K", "\x1b[?25h"))


def test_nothing_is_shown_if_nothing_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with live(12.0, NONE) as show:
        show({"a": Results([], 0)}, 6.0)
    assert capsys.readouterr().err == ""


def test_the_screen_is_drawn_again_now_and_then_and_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert check_live(SCREEN) == SCREEN
    with live(12.0, SCREEN) as show:
        for hundredth in range(0, 310, 10):
            show({"a": results()}, hundredth / 100)
    written = terminal.getvalue()
    assert "3/12 s" in written
    assert written.index("\x1b[?1049h") < written.index("\x1b[?1049l")
    assert 10 <= written.count("Ctrl-C ends it") <= 18


@pytest.mark.parametrize(
    ("how", "has_rich", "sentence"),
    [
        ("all", True, '-live needs line, screen or none, found "all"'),
        (SCREEN, False, '-live screen draws with the library rich, which is not installed: run pip install "hsdns-server[top]", or leave it out'),
    ],
)  # fmt: skip
def test_what_cannot_be_shown(
    how: str, has_rich: bool, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    if not has_rich:
        monkeypatch.setattr("hsdns.load.cli.progress.LIBRARY", "no_such_library")
    with pytest.raises(FlagError) as error:
        check_live(how)
    assert str(error.value) == sentence
