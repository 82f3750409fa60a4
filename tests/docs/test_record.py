"""docs/record.md: its commands against a server, and its tables against the entries, flags and commands."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hsdns.cli import record as replay
from hsdns.cli.record import Record
from hsdns.recording.entry import NAMES, ObjectEvent
from hsdns.recording.frames import read_lines
from hsdns.recording.reader import BadRecording, Recording
from hsdns.sources.replay import SETTINGS
from loadtest.ports import free_port
from tests.docs.test_examples import as_pattern, fences
from tests.support.clients.command import ENVIRON, serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "record.md"
TEXT = PAGE.read_text()
FENCES = list(fences(PAGE))
SERVERS = [each.body for each in FENCES if each.body.startswith("hsdns serve")]


def words(command: str, port: int = 1053) -> list[str]:
    return [sys.executable, "-m", *shlex.split(command.replace(" 1053", f" {port}"))]


@contextmanager
def server(text: str) -> Iterator[int]:
    """A server of the page; its port."""
    port = free_port()
    with serving(*shlex.split(text)[1:], "-p", str(port)):
        yield port


def printed(command: str, port: int) -> str:
    if command.startswith("zstd -dc "):
        with open(command.split()[-1], "rb") as file:
            return "".join(f"{line.decode()}\n" for line in read_lines(file))
    return subprocess.run(
        words(command, port), check=True, text=True, env=ENVIRON, timeout=30,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ).stdout  # fmt: skip


def recorded(command: str, manifest: str) -> str:
    """What `hsdns record` prints that is interrupted once a change of the manifest is in the file."""
    with subprocess.Popen(words(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRON) as recorder:  # fmt: skip
        assert recorder.stdout is not None
        first = recorder.stdout.readline()
        end = time.monotonic() + 60
        Path("new").write_text(manifest.replace("10.96.7.7", "10.96.7.8"))
        Path("new").rename("web.yaml")
        while not _has_event("shop.rec"):
            assert time.monotonic() < end
            time.sleep(0.05)  # between two looks at what another process does
        recorder.send_signal(signal.SIGINT)
        return first + recorder.stdout.read()


def _has_event(path: str) -> bool:
    with suppress(BadRecording), Recording.open(path) as recording:
        return any(isinstance(each, ObjectEvent) for each in recording)
    return False


@pytest.mark.slow
@pytest.mark.sockets
def test_commands_print_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, since each works on what those before it have made."""
    monkeypatch.chdir(tmp_path)
    manifest = next(each.body for each in FENCES if each.title == "web.yaml")
    Path("web.yaml").write_text(manifest)
    consoles = [list(each.commands) for each in FENCES if each.language == "console"]
    assert len(consoles) == 5
    with server(SERVERS[0]) as port:
        ((command, expected),) = consoles[0]
        found = recorded(command, manifest)
        assert as_pattern(expected).fullmatch(found), found
        check([*consoles[1], *consoles[3], *consoles[4]], port)
    with server(SERVERS[1]) as port:
        check(consoles[2], port)


def check(console: list[tuple[str, str]], port: int) -> None:
    for command, expected in console:
        found = printed(command, port)
        assert as_pattern(expected).fullmatch(found), found


@pytest.mark.parametrize(
    ("title", "known"),
    [
        ("entry", set(NAMES)),
        ("argument", set(SETTINGS)),
        ("command", {f"hsdns replay {each}" for each in replay.WORDS}),
        ("flag", {f"-{each}" for each in Record.flags()} - {"-control", "-o", "-h", "-help"}),
    ],
)
def test_every_word_is_described(title: str, known: set[str]) -> None:
    table = TEXT.partition(f"\n| {title} | ")[2].partition("\n\n")[0]
    first = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    named = {re.match(r"hsdns replay \w+|-?\w+", each)[0] for each in first}  # type: ignore[index] # each matches
    assert named == known
