"""`hsdns top`, against scripted servers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from hsdns.cli import main
from tests.cli.test_running_server import VERSION, chunked, listening, reply
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

ROOT = Path(__file__).resolve().parents[2]
PICTURE = json.loads((ROOT / "docs" / "pictures" / "top.json").read_text())
# A shell has commands in the background ignore SIGINT, and a process passes that on.
INTERRUPTED = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('hsdns', run_name='__main__')"
LINE = json.dumps(PICTURE).encode() + b"\n"
GONE = "the server at c ended before all of /v1/top was read; try again"


@pytest.fixture(autouse=True)
def _folder(no_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["top", *line.split()])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.sockets
@pytest.mark.parametrize("flags", ["-once", ""])
def test_a_still_picture(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where standard output is no terminal."""
    with listening(Path("c"), **{"top?once=1": chunked(LINE)}):
        status, shown, errors = run(f"{flags} --control c", capsys)
    assert (status, errors) == (0, "")
    lines = shown.splitlines()
    assert max(map(len, lines)) == 80
    assert lines[0].startswith("4,182 queries/s, 98 % from the answer table, up 1 d 2 h")
    assert "the server with process ID 7, at c" in lines[4]
    assert "  -> kubectl -n shop logs db-0 -c db --previous" in [each.rstrip() for each in lines]  # fmt: skip
    assert "\x1b" not in shown, "no colours where there is no terminal"


@pytest.mark.sockets
@pytest.mark.parametrize(("flags", "page"), values(TABLES, "filters"))
def test_filters(flags: str, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(Path("c"), **{page.replace("top?namespace=a%2F", ""): chunked(LINE), "top?namespace=a%2Fb%26c&once=1": chunked(LINE)}):  # fmt: skip
        status, shown, _ = run(f"{flags} --once --control c", capsys)
    assert status == 0
    assert "names of namespace" in re.sub(r"\s+", " ", shown)


@pytest.mark.sockets
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"top?once=1": chunked(LINE), "top": chunked(LINE, LINE)}
    with listening(Path("c"), **pages):
        once = run("--once -o json --control c", capsys)
        stream = run("-o json --control c", capsys)
    assert (once[0], json.loads(once[1]), once[2]) == (0, PICTURE, "")
    assert [json.loads(line) for line in stream[1].splitlines()] == [PICTURE, PICTURE]
    assert stream[::2] == (2, "the server at c has ended, or its control socket was closed\n")


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("pages", "error"),
    [
        ({"top?once=1": chunked(LINE, whole=False)}, "the server at c ended before all of /v1/top?once=1 was read; try again"),
        ({"top?once=1": reply(b'{"error":"this hsdns has no /v1/top"}', "404 Not Found")}, "this hsdns has no /v1/top"),
        ({"version": reply(VERSION.replace(b"v1", b"v0"))}, "the server at c is hsdns 9.9.9, whose control API has v0, v2;"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_asked(
    pages: dict[str, bytes], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(Path("c"), **pages):
        status, _, errors = run("--once --control c", capsys)
    assert (status, errors.splitlines()[-1][: len(error)]) == (2, error)


# --- on a terminal ---


class Screen:
    """The command on a terminal of its own."""

    def __init__(self, width: int, height: int, **environ: str) -> None:
        self._end, terminal = pty.openpty()
        ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.before = termios.tcgetattr(terminal)
        kept = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, "top", "-control", "c"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environ},
        )
        self._terminal = terminal
        self.shown, self._decoder = "", getincrementaldecoder("utf-8")()

    def until(self, words: str) -> str:
        """What is shown up to these words."""
        while words not in self.shown:
            self.shown += self._decoder.decode(os.read(self._end, 65_536))
        return self.shown

    def rest(self) -> str:
        """What is shown after the command has ended."""
        os.set_blocking(self._end, False)
        with contextlib.suppress(BlockingIOError):
            self.shown += self._decoder.decode(os.read(self._end, 65_536))
        return self.shown[-500:]

    def press(self, key: bytes) -> None:
        os.write(self._end, key)

    def resize(self, width: int, height: int) -> None:
        self.shown = ""
        ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def settings(self) -> Any:
        return termios.tcgetattr(self._terminal)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)
        os.close(self._terminal)


@contextmanager
def screen(width: int = 80, height: int = 60, **environ: str) -> Iterator[Screen]:
    found = Screen(width, height, **environ)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def streaming(*, ends: bool = False) -> Iterator[None]:
    """A server whose stream has a picture a second, and goes on until this ends."""
    over = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("c")
        server.listen()

        def serve() -> None:
            for answer, waits in ((reply(VERSION), False), (chunked(LINE, whole=False), not ends)):
                client, _ = server.accept()
                with client:
                    client.recv(65_536)
                    client.sendall(answer)
                    if waits:
                        with contextlib.suppress(OSError):
                            while not over.wait(1):
                                client.sendall(b"%x\r\n%b\r\n" % (len(LINE), LINE))

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        over.set()
        thread.join()


@pytest.mark.sockets
@pytest.mark.slow
@pytest.mark.parametrize("key", [b"q", b"Q", b"\x04", None])
def test_a_key_or_a_signal_ends_it_and_the_terminal_is_as_before(key: bytes | None) -> None:
    with streaming(), screen() as found:
        shown = found.until("Upstreams")
        assert "\x1b[?1049h" in shown, "the alternate screen"
        assert "\x1b[31m" in shown or "\x1b[38" in shown, "colours"
        assert "db.shop.svc.cluster.local." in shown
        if key is None:
            found.process.send_signal(signal.SIGINT)
        else:
            found.press(key)
        found.until("\x1b[?1049l")
        assert found.process.wait(20) == 0, found.rest()
        assert found.settings() == found.before


@pytest.mark.sockets
@pytest.mark.slow
def test_it_follows_the_size_of_the_terminal_and_has_no_colours_if_asked() -> None:
    with streaming(), screen(120, 40, NO_COLOR="1") as found:
        shown = found.until("192.0.2.54:53")
        assert re.findall(r"\x1b\[(?:3\d|9\d|38;5;\d+)m", shown) == []
        assert "─" * 71 in shown
        found.resize(40, 60)
        found.until("─" * 5)
        assert max(map(len, re.findall("─+", found.until("192.0.2.54:53")))) < 40
        found.press(b"q")
        assert found.process.wait(20) == 0


@pytest.mark.sockets
@pytest.mark.slow
def test_a_server_that_goes_away() -> None:
    with streaming(ends=True), screen() as found:
        found.until(GONE)
        assert "\x1b[?1049l" in found.shown.partition(GONE)[0], "it is told where it stays"
        assert found.process.wait(20) == 2
        assert found.settings() == found.before
