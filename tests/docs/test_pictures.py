"""The pictures of the documentation are those that their scripts draw."""

import asyncio
import json
import re
import shutil
import struct
from pathlib import Path

import pytest

from docs.pictures import architecture, dashboard, terminal, top
from docs.pictures.terminal import PROMPT, TEXT, Terminal, commands
from tests.docs.test_control import check
from tests.support.browser.chromium import PROGRAM

RENEW = "run: make pictures"
DEADLINE = 15.0  # seconds for a command to print what the picture shows
ATTEMPTS = 200  # queries until a change of a file is in the answer
# What depends on the release and the machine.
VARIABLE = (
    (r"hsdns-\S+ \(answers as CoreDNS-\S+\)", "hsdns-VERSION"),
    (r"\w+/\w+, \w+ [\d.]+\w*", "SYSTEM/MACHINE, PYTHON"),
    (r"fast path: .*", "fast path"),
)


def test_the_architecture_is_the_one_that_the_script_draws() -> None:
    assert architecture.TARGET.read_text() == architecture.draw(), RENEW


def test_the_terminal_is_the_one_that_the_script_draws() -> None:
    assert terminal.TARGET.read_text() == terminal.draw(TEXT.read_text()), RENEW


def test_the_picture_of_top_is_the_one_that_the_script_draws() -> None:
    svg = top.draw(top.PICTURE.read_text())
    assert top.TARGET.read_text() == svg, RENEW
    assert re.findall(r"url\((?!#)|@import|<script|href", svg) == [], "it loads nothing"
    check(json.loads(top.PICTURE.read_text()), "/v1/top")  # the server may send it


def masked(line: str) -> str:
    for pattern, name in VARIABLE:
        line = re.sub(rf"^{pattern}$", name, line)
    return line


def left_of(wanted: list[str], line: str) -> list[str]:
    """The lines that are still to come after this one."""
    return wanted[1:] if wanted and wanted[0] == masked(line) else wanted


@pytest.mark.sockets
@pytest.mark.skipif(shutil.which("dig") is None, reason="dig is not installed")
def test_the_commands_print_what_the_terminal_shows(tmp_path: Path) -> None:
    steps = list(commands(TEXT.read_text()))
    assert [command for command, _ in steps] == list(terminal.COMMANDS), RENEW
    with Terminal(tmp_path) as shell:
        for command, shown in steps:
            wanted = [masked(line) for line in shown]
            printed = shell.run(command)
            if command.startswith("dig "):
                # Records come in any order, and a file that changed is read as soon as the system reports it.
                for _ in range(ATTEMPTS):
                    if sorted(printed) == sorted(wanted):
                        break
                    printed = shell.run(command)
                assert sorted(printed) == sorted(wanted), f"{PROMPT}{command}: {RENEW}"
                continue
            for line in printed:
                wanted = left_of(wanted, line)
            while wanted:
                next_line = shell.line(DEADLINE)
                assert next_line is not None, (
                    f"{PROMPT}{command} does not print {wanted[0]!r}: {RENEW}"
                )
                wanted = left_of(wanted, next_line)


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.sockets
@pytest.mark.night
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_the_web_page_is_the_one_that_the_script_draws() -> None:
    """The numbers differ each time; the page has the same parts, and so about the same size."""
    width, height = size_of(dashboard.TARGET.read_bytes())
    drawn = size_of(asyncio.run(dashboard.draw(seconds=1)))
    assert drawn[0] == width, RENEW
    assert abs(drawn[1] - height) < height / 10, RENEW
