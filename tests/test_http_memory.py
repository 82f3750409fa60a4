"""A process with the pages of a stock Corefile keeps its memory, whatever is sent to them."""

from __future__ import annotations

import contextlib
import platform
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from loadtest.ports import free_port
from tests.support.clients.command import serving

pytestmark = [pytest.mark.sockets, pytest.mark.slow]  # a process is started
MOST: Final = 100_000_000  # octets
GROWTH: Final = 16_000_000
SENT: Final = 64_000_000  # in each case
COREFILE = """.:{dns} {{
    bind 127.0.0.1
    errors
    health 127.0.0.1:{http}
    ready 127.0.0.1:{http}
    prometheus 127.0.0.1:{http}
    dashboard 127.0.0.1:{http}
}}
"""
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n"
LINE = b"X-A: " + b"a" * 1000 + b"\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int, Path]]:
    """Its process, the port of its pages, and its log."""
    folder = tmp_path_factory.mktemp("http")
    port = free_port()
    corefile, log = folder / "Corefile", folder / "log"
    corefile.write_text(COREFILE.format(dns=free_port(), http=port))
    with serving("-conf", str(corefile), log=log) as process:
        assert ask(port, "/metrics").startswith(b"HTTP/1.1 200")
        yield process.pid, port, log


def ask(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return sock.makefile("rb").read()


def resident(pid: int, what: str = "VmRSS") -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1]) * 1024


@pytest.mark.skipif(platform.system() != "Linux", reason="only Linux has /proc")
@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        pytest.param(GET, LINE * 64, id="lines"),
        pytest.param(GET + b"A: ", b"a" * 65_536, id="a line"),
        pytest.param(b"GET /", b"a" * 65_536, id="a URL"),
        pytest.param(POST + b"Content-Length: 999999999\r\n\r\n", b"a" * 65_536, id="a body"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"a" * 65_536 + b"\r\n", id="chunks"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", LINE * 64, id="trailers"),
        pytest.param(b"", (GET + b"\r\n") * 1000, id="requests whose responses are not read"),
        pytest.param(b"", b"GET / HTTP/9.9\r\n\r\n" * 4096, id="bad requests"),
    ],
)  # fmt: skip
def test_memory(server: tuple[int, int, Path], begin: bytes, rest: bytes) -> None:
    """20 connections at a time, each until the server ends it."""
    pid, port, log = server
    before, lines, sent = resident(pid), log.read_bytes().count(b"\n"), 0
    socks: list[socket.socket] = []
    for _ in range(60):
        if sent >= SENT:
            break
        sock = socket.create_connection(("127.0.0.1", port), 10)
        sock.settimeout(0.1)  # a server that does not read has what it wants
        socks.append(sock)
        with contextlib.suppress(OSError):
            sock.sendall(begin)
            while sent < SENT:
                sock.sendall(rest)
                sent += len(rest)
        if len(socks) == 20:
            socks.pop(0).close()
    peak = resident(pid, "VmHWM")
    for sock in socks:
        sock.close()
    assert ask(port, "/health").endswith(b"OK")
    assert peak < MOST
    assert resident(pid) < before + GROWTH
    assert log.read_bytes().count(b"\n") <= lines + 1
