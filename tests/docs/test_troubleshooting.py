"""docs/troubleshooting.md: its commands against a server of the demo cluster, and a link for each rule with an example."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from loadtest.ports import free_port
from tests.cli.test_demo import BROKEN
from tests.docs.test_examples import as_pattern, fences
from tests.support.clients.command import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
PORT = "1053"  # of the page
FOLDER = "XDG_RUNTIME_DIR"  # where the control socket of the server is
CONSOLES = [each for each in fences(PAGE) if each.language == "console"]
COMMANDS = [
    pytest.param(command, output, id=command)
    for fence in CONSOLES
    for command, output in fence.commands
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server of the demo cluster: its port, and the folder of its control socket."""
    folder, port = tmp_path_factory.mktemp("run"), str(free_port())
    with serving("serve", "-p", port, environ={FOLDER: str(folder)}):
        yield port, folder


@pytest.mark.sockets
@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_command_prints_what_the_page_says(
    command: str,
    output: str,
    server: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    port, folder = server
    program, *words = shlex.split(command.replace(f"-p {PORT}", f"-p {port}"))
    if program == "dig":
        if shutil.which("dig") is None:
            pytest.skip("dig is not installed")
        printed = subprocess.run(
            command.replace(PORT, port), shell=True, check=True, capture_output=True, text=True, timeout=30
        ).stdout  # fmt: skip
        assert sorted(printed.splitlines()) == sorted(output.splitlines())
        return
    monkeypatch.setenv(FOLDER, str(folder))
    cli.main(words)
    printed = capsys.readouterr().out.replace(port, PORT)
    assert as_pattern(output).fullmatch(printed), printed


def test_each_example_of_the_demo_has_a_link_to_its_rule() -> None:
    text = PAGE.read_text()
    assert [code for code in BROKEN if f"[{code}](rules/{code}.md)" not in text] == []


def test_each_example_of_the_demo_is_judged() -> None:
    shown = set(re.findall(r"^  (HS\d+) ", "".join(each.body for each in CONSOLES), re.MULTILINE))
    assert shown == set(BROKEN)
