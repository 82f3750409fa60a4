"""Dispatch of arguments to commands."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli.coredns import Coredns
from hsdns.cli.serve import Serve
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(("line", "command", "words"), values(TABLES, "main"))
@pytest.mark.parametrize("given", [True, False], ids=["argv", "sys.argv"])
def test_main(
    line: str, command: str, words: list[str], given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[str]]] = []

    def record(name: str, words: list[str]) -> int:
        seen.append((name, words))
        return 7

    monkeypatch.setattr(Coredns, "main", partial(record, "coredns"))
    monkeypatch.setattr(Serve, "main", partial(record, "serve"))
    monkeypatch.setattr(sys, "argv", ["hsdns", *line.split()])
    assert cli.main(line.split() if given else None) == 7
    assert seen == [(command, words)]


@pytest.mark.parametrize(("program", "is_terminal", "has_corefile", "is_shown"), values(TABLES, "without words"))  # fmt: skip
def test_without_words(
    program: str, is_terminal: bool, has_corefile: bool, is_shown: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """A person sees the commands; an image, a service or a folder with a Corefile is served."""
    monkeypatch.chdir(tmp_path)
    if has_corefile:
        Path("Corefile").write_text(". {\n    whoami\n}\n")
    monkeypatch.setattr(sys, "argv", [f"/usr/bin/{program}"])
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(Coredns, "main", lambda words: 7)
    assert cli.main() == (0 if is_shown else 7)
    printed = capsys.readouterr().out
    assert all((f"hsdns {name}" in printed) is is_shown for name in cli.SUBCOMMANDS)
    assert max(map(len, printed.splitlines()), default=0) <= 88


def test_a_closed_standard_output_is_no_error() -> None:
    """As `hsdns -h | head -1`: no traceback, and a status that is not 0."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        ended = subprocess.run(
            [sys.executable, "-m", "hsdns", "-h"],
            stdout=gone,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            text=True,
            timeout=20,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "")
