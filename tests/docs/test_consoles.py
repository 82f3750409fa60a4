"""The consoles of pages that have a server of their own: each command prints what the page says."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.recording.entry import ObjectEvent
from hsdns.recording.reader import BadRecording, Recording, read_lines
from loadtest.ports import free_port
from tests.docs.test_examples import ROOT, Fence, as_pattern, fences
from tests.support.clients.command import ENVIRON, HSDNS, run_command, serving

CONTROL, FAULTS, RECORD = (
    [*fences(ROOT / "docs" / f"{name}.md")] for name in ("control", "faults", "record")
)
TROUBLES = [*fences(ROOT / "tests" / "docs" / "troubleshooting.md")]
CONTROL += fences(ROOT / "tests" / "docs" / "control.md")
FAULTS += fences(ROOT / "tests" / "docs" / "faults.md")
RECORD += fences(ROOT / "docs" / "contributing" / "recording.md")
FOLDER = "XDG_RUNTIME_DIR"  # where the control socket of a server is
pytestmark = pytest.mark.sockets


def consoles(page: list[Fence], part: str = "") -> list[Fence]:
    return [each for each in page if each.language == "console" and part in each.body]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FOLDER, str(tmp_path))


@contextmanager
def server(page: list[Fence], number: int = 0) -> Iterator[str]:
    """A server of a page; its port."""
    words = [shlex.split(each.body) for each in page if each.body.startswith("hsdns serve")][number]
    for each in page:
        if each.title in ("web.yaml", "chaos.yaml") and not Path(each.title).exists():
            Path(each.title).write_text(each.body)
    port = str(free_port())
    with serving(*words[1:], "-p", port, environ={FOLDER: str(Path.cwd())}):
        yield port


def change() -> None:
    """Change the manifest, at once for who reads it."""
    Path("new").write_text(Path("web.yaml").read_text().replace("10.96.7.7", "10.96.7.8"))
    Path("new").rename("web.yaml")


def printed(command: str) -> str:
    """What a command prints, alone or until the manifest has changed."""
    program, *words = shlex.split(command)
    if program == "hsdns":
        return run_command(words)[1]
    if program == "zstd":
        with open(words[-1], "rb") as file:
            return "".join(f"{line.decode()}\n" for line in read_lines(file))
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    return subprocess.run(command, shell=True, check=True, text=True, stdout=subprocess.PIPE, timeout=30).stdout  # fmt: skip


def check(expected: str, found: str) -> None:
    assert as_pattern(expected).fullmatch(found), found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("fence", consoles(CONTROL, "$ curl"), ids=str)
def test_control(fence: Fence) -> None:
    with server(CONTROL):
        for command, expected in fence.commands:
            check(expected, followed(command) if "/v1/changes" in command else printed(command))


def followed(command: str) -> str:
    """What a stream has until the manifest has changed."""
    with subprocess.Popen(command.split(), stdout=subprocess.PIPE, text=True) as stream:
        try:
            assert stream.stdout is not None
            first = stream.stdout.readline()
            change()
            return "".join([first, stream.stdout.readline(), stream.stdout.readline()])
        finally:
            stream.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("fence", consoles(FAULTS, "lab.sock"), ids=str)
def test_faults(fence: Fence) -> None:
    with server(FAULTS) as port:
        for command, expected in fence.commands:
            wanted = as_pattern(expected.replace(" 1053", f" {port}"))
            end = time.monotonic() + 30
            found = printed(command.replace(" 1053", f" {port}"))
            # A server dies after it has said that it has the rule, so the one before may still answer.
            while (
                "nothing listens" in expected
                and not wanted.fullmatch(found)
                and time.monotonic() < end
            ):
                found = printed(command.replace(" 1053", f" {port}"))
            assert wanted.fullmatch(found), found


@pytest.mark.slow
def test_record() -> None:
    """In the order of the page, since each works on what those before it have made."""
    first, second, replayed, *others = [list(each.commands) for each in consoles(RECORD)]
    with server(RECORD) as port:
        ((command, expected),) = first
        check(expected, recorded(command))
        for command, expected in [*second, *(each for other in others for each in other)]:
            check(expected, printed(command.replace(" 1053", f" {port}")))
    with server(RECORD, 1) as port:
        for command, expected in replayed:
            check(expected, printed(command.replace(" 1053", f" {port}")))


def recorded(command: str) -> str:
    """What `hsdns record` prints that is interrupted once a change of the manifest is in the file."""
    words = [*HSDNS, *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRON) as recorder:  # fmt: skip
        assert recorder.stdout is not None
        first = recorder.stdout.readline()
        end = time.monotonic() + 60
        change()
        while not _has_event("shop.rec"):
            assert time.monotonic() < end
            time.sleep(0.05)  # between two looks at what another process does
        recorder.send_signal(signal.SIGINT)
        return first + recorder.stdout.read()


def _has_event(path: str) -> bool:
    with suppress(BadRecording), Recording.open(path) as recording:
        return any(isinstance(each, ObjectEvent) for each in recording)
    return False


def test_troubleshooting(capsys: pytest.CaptureFixture[str]) -> None:
    """What is on standard output."""
    with server(TROUBLES) as port:
        for command, expected in (each for fence in consoles(TROUBLES) for each in fence.commands):
            own = command.replace("-p 1053", f"-p {port}")
            if command.startswith("hsdns "):
                cli.main(shlex.split(own)[1:])
                found = capsys.readouterr().out
            else:
                found = printed(own)
            found = found.replace(port, "1053")
            if command.startswith("dig"):
                assert sorted(found.splitlines()) == sorted(expected.splitlines())
            else:
                check(expected, found)
