"""Manual pages: all flags and commands are in them, and man's programs can read them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from hsdns import cli
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.command import Flag, dashed
from hsdns.cli.commands import Description, described_commands, page

COMMANDS = described_commands()
each_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.title)


def plain(text: str) -> str:
    """A page without fonts and escapes."""
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    return text.replace("\\-", "-").replace("\\e", "\\")


@each_command
def test_page(command: Description, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["man", *command.name.split()]) == 0
    text = plain(capsys.readouterr().out)
    assert text.startswith(f'.TH {command.title.upper()} 1 "')
    assert f"\n.SH NAME\n{command.title} - {command.headline}\n" in text
    for name, flag in command.flags.items():
        assert f"\n.TP\n{f'{dashed(name)} {flag.argument}'.strip()}\n{flag.help}\n" in text
    for form in command.usage:
        assert f"\n{form}\n" in text
    for name, headline in SUBCOMMANDS.items():
        assert (f"\n.TP\n.B {name}\n{headline}.\n" in text) is (command.name == "")
        assert (f"\n.BR hsdns-{name} (1)" in text) is (command.name != name)


def test_nothing_is_a_request() -> None:
    flags = {"x": Flag(str, ".so /etc/passwd \\fB", "FILE")}
    text = page(Description("", "'headline", ("hsdns -x FILE",), flags, ()), [])
    assert "\n\\&.so /etc/passwd \\efB\n" in text
    assert "\n\\fBhsdns \\-x \\fR\\fIFILE\\fR\n" in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
@each_command
def test_mandoc_has_no_complaint(command: Description) -> None:
    found = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning"],
        input=page(command, COMMANDS),
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    # A date would be that of the build, and the page another one each day.
    complaints = [line for line in found.stdout.splitlines() if "missing date" not in line]
    assert complaints == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@each_command
def test_groff_has_no_warning(command: Description) -> None:
    found = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww"],
        input=page(command, COMMANDS),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert found.stderr == ""
