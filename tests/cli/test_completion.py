"""Completion as each shell does it; a shell that is not installed is skipped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli import SUBCOMMANDS
from hsdns.cli.commands import Completion, bash, described_commands, fish, zsh

SERVE = next(command for command in described_commands() if command.name == "serve")
PLAIN = next(command for command in described_commands() if not command.name)
# What stands on the line, and what is offered for its last word.  Files of the folder: Corefile and a folder "shop".
CASES = [
    pytest.param("", set(SUBCOMMANDS), id="commands"),
    pytest.param("ser", {"serve"}, id="command"),
    pytest.param("-", {f"-{name}" for name in PLAIN.flags}, id="flags"),
    pytest.param("-conf ", {"Corefile", "shop/"}, id="file"),
    pytest.param("-conf C", {"Corefile"}, id="begun-file"),
    pytest.param("-p ", set(), id="number"),
    pytest.param("serve -", {f"-{name}" for name in SERVE.flags}, id="flags-of-a-command"),
    pytest.param("serve -quiet -so", {"-source"}, id="flag"),
    pytest.param("serve --so", {"--source"}, id="long-flag"),
    pytest.param("serve --source man", {"manifests"}, id="value-of-a-long-flag"),
    pytest.param("serve --source manifests sh", {"shop/"}, id="files-of-a-long-list"),
    pytest.param("serve -source manifests sh", {"shop/"}, id="files-of-a-list"),
    pytest.param("serve -source man", {"manifests"}, id="source"),
    pytest.param("completion ", set(Completion.suggested), id="shells"),
    pytest.param("man ser", {"serve"}, id="page"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Corefile").touch()
    (tmp_path / "shop").mkdir()
    return tmp_path


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def output(folder: Path, *words: str) -> set[str]:
    found = subprocess.run(
        words, cwd=folder, check=False, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"},
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    return {line.rstrip() for line in found.stdout.splitlines() if line.strip()}


@needs("bash")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash(line: str, expected: set[str], folder: Path) -> None:
    """What the function offers; where it leaves files to readline, those are added as readline would."""
    words = ["hsdns", *line.split(" ")]
    script = f"""{bash(described_commands())}
compopt() {{ [[ "$*" == "-o default" ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")) && leave=yes; }}
COMP_WORDS=({" ".join(repr(word) for word in words)})
COMP_CWORD={len(words) - 1}
_hsdns
for each in "${{COMPREPLY[@]}}"; do [[ -d $each ]] && each+=/; echo "$each"; done"""
    found = output(folder, "bash", "--norc", "-c", script + "\ntrue")
    assert found == expected


# An interactive zsh that writes into a file what its completion offers, and ends after the first one.
ZSH_RC = Path(__file__).with_name("zshrc").read_text()
# What types into it, on a terminal of its own.
ZSH_DRIVER = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ./rc'
zpty -r shell shown '*READY*'
zpty -n -w shell "hsdns $1"$'\t'
zpty -r shell shown '*DONE*'
zpty -d shell
if [[ -e offered ]]; then cat offered; fi
"""


@needs("zsh")
@pytest.mark.slow
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_zsh(line: str, expected: set[str], folder: Path) -> None:
    (folder / "script").write_text(zsh(described_commands()))
    (folder / "rc").write_text(ZSH_RC)
    (folder / "driver").write_text(ZSH_DRIVER)
    found = output(folder, "zsh", "-f", "driver", line) - {"script", "rc", "driver"}
    assert found == {each.rstrip("/") for each in expected}


@needs("fish")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_fish(line: str, expected: set[str], folder: Path) -> None:
    (folder / "script").write_text(fish(described_commands()))
    found = output(folder, "fish", "-N", "-c", f"source script; complete -C 'hsdns {line}'")
    offered = {each.partition("\t")[0] for each in found}
    assert offered - {"script"} == expected


@pytest.mark.parametrize("shell", Completion.suggested)
def test_each_command_and_flag_is_in_the_script(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert script == {"bash": bash, "zsh": zsh, "fish": fish}[shell](described_commands())
    for command in described_commands():
        assert command.name in script
        for name in command.flags:
            assert f"-{name}" in script or f"-o {name}" in script or f"-s {name}" in script
