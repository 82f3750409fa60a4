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


@pytest.mark.parametrize(
    ("line", "command", "words"),
    [
        pytest.param("", "coredns", [], id="nothing"),
        pytest.param("-conf /etc/coredns/Corefile", "coredns", ["-conf", "/etc/coredns/Corefile"], id="deployment"),
        pytest.param("serve", "serve", [], id="serve"),
        pytest.param("serve -p 1", "serve", ["-p", "1"], id="serve-with-flags"),
        pytest.param("-conf serve", "coredns", ["-conf", "serve"], id="serve-as-a-value"),
        pytest.param("sreve", "coredns", ["sreve"], id="unknown"),
        pytest.param("help", "coredns", ["-h"], id="help"),
        pytest.param("help serve", "serve", ["-h"], id="help-of-a-command"),
        pytest.param("version", "coredns", ["-version"], id="version"),
        pytest.param("-V -o json", "coredns", ["-version", "-o", "json"], id="version-as-a-flag"),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("program", "is_terminal", "has_corefile", "is_shown"),
    [
        ("hsdns", True, False, True),
        ("hsdns", True, True, False),
        ("hsdns", False, False, False),
        ("coredns", True, False, False),
    ],
)
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


def test_every_subcommand_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-h"]) == 0
    printed = capsys.readouterr().out
    for name, headline in cli.SUBCOMMANDS.items():
        assert f"hsdns {name}" in printed
        assert headline in printed
        assert cli.main([name, "-h"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"Usage: hsdns {name} ")
        assert all(f"\n  -{flag}" in shown for flag in cli.find_command(name).flags())


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
