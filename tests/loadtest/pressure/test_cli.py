import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.answering.programs import FoundPrograms, Program
from loadtest.pressure import cli, soak, soak_report
from loadtest.pressure.cli import duration, main
from tests.loadtest.pressure.test_soak_result import GOOD, growing


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "existing,warm"], "warm is not known; write one or more of existing, new-4k,"),
        (["--servers", ","], "write one or more of hsdns, hsdns-pure, coredns"),
        (["--services", "10"], "10 is not from 500 to 100000"),
        (["--soak", "30"], '"30" is no time; write a number with s, m or h: 30m'),
    ],
    ids=["row", "server", "services", "soak"],
)
def test_wrong_words(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("word", "seconds"), [("60s", 60), ("30m", 1800), ("2h", 7200)])
def test_duration(word: str, seconds: float) -> None:
    assert duration(word) == seconds


@pytest.mark.parametrize("word", ["", "0s", "m", "-1m", "1.5m", "1 m", "1d"])
def test_no_duration(word: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(word)


@pytest.mark.parametrize("is_good", [True, False])
def test_a_soak_writes_its_own_section(
    is_good: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, output = tmp_path / "performance.md", tmp_path / "soak.json"
    page.write_text(f"before\n{soak_report.BEGIN}\nold\n{soak_report.END}\nafter\n")
    result = GOOD if is_good else GOOD._replace(memory=growing(1800, 30_000_000))
    monkeypatch.setattr(cli, "PAGE", page)
    monkeypatch.setattr(soak, "run", lambda *words: result)
    words = ["--soak", "30m", "--servers", "hsdns", "--check", "--write-docs", "-o", str(output)]
    found = FoundPrograms([Program("hsdns", ("hsdns",), "hsdns-1")], None, [])
    bench: Any = SimpleNamespace()
    assert cli._soak(cli._arguments(words), bench, found, words) == (0 if is_good else 1)
    written = page.read_text()
    assert written.startswith(f"before\n{soak_report.BEGIN}\n\n- command: `make bench-pressure ")
    assert written.endswith(f" |\n\n{soak_report.END}\nafter\n")
    assert "| /health answered | at least 99% | 100.0% |" in written
    assert '"soak"' in output.read_text()
    said = capsys.readouterr().out
    assert ("hsdns, compiled: memory rises by 30 MB an hour" in said) is not is_good
