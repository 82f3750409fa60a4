"""A server under test: hsdns or CoreDNS, with the same Corefile.

Path: plan.py -> here -> startup.py, latency.py, churn.py.
Rule 1: the Corefile is kubeadm's, on free ports of loopback; `loop` and `lameduck` are left out, and names outside the
        cluster are forwarded to a closed port.
Rule 2: it is ready when /ready returns 200, polled every five milliseconds from the start of the process.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from loadtest.corefile import COREFILE
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Memory, Process
from loadtest.watch.access import Access
from loadtest.watch.dns import ZONE, question

POLL = 0.005  # seconds between two questions for /ready
START_DEADLINE = 90.0
HSDNS = "hsdns"
PEER = "CoreDNS"


class Program(NamedTuple):
    """The program of a server under test."""

    name: str  # HSDNS or PEER
    words: tuple[str, ...]
    version: str


def programs(hsdns: str | None) -> list[Program]:
    """hsdns, and CoreDNS if it is found: HSDNS_PEER, otherwise coredns on PATH; raise BenchmarkError."""
    beside = Path(sys.executable).with_name("hsdns")
    if hsdns is not None:
        words: tuple[str, ...] = (hsdns,)
    elif beside.is_file():
        words = (str(beside),)
    else:
        words = (sys.executable, "-m", "hsdns")
    found = [Program(HSDNS, words, _version(words))]
    named = os.environ.get("HSDNS_PEER")
    peer = shutil.which(named) if named else shutil.which("coredns")
    if named and peer is None:
        raise BenchmarkError(f"HSDNS_PEER is {named}, which is no program")
    if peer is not None:
        found.append(Program(PEER, (peer,), _version((peer,))))
    return found


def _version(words: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*words, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchmarkError(f"{' '.join(words)} -version does not work: {error}") from None
    return ", ".join(line.strip(" ,") for line in done.stdout.strip().splitlines()[:2])


class ServerUnderTest:
    """A running server; a context manager.  `started`: the clock time of its start."""

    def __init__(self, program: Program, access: Access) -> None:
        self.name = program.name
        self.port = free_port()
        self.started = 0.0
        self._words = program.words
        self._access = access
        self._ready_port = free_port()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            folder = Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-dns-"))
            )
            corefile = folder / "Corefile"
            corefile.write_text(self._corefile())
            words = (*self._words, "-conf", str(corefile), "-dns.port", str(self.port))
            self.started = time.monotonic()
            self._process = self._stack.enter_context(Process(self.name, words, folder))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def wait_ready(self) -> float:
        """Wait until the server is ready; return the seconds since its start."""
        question = b"GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        while not _says_200(self._ready_port, question):
            self._process.check()
            if time.monotonic() > self.started + START_DEADLINE:
                raise BenchmarkError(
                    f"{self.name} is not ready after {START_DEADLINE:.0f} s:\n"
                    f"{self._process.printed()}"
                )
            time.sleep(POLL)
        return time.monotonic() - self.started

    def wait_answering(self) -> None:
        """Wait until it is ready and answers over UDP and TCP, which CoreDNS does shortly after /ready returns 200."""
        self.wait_ready()
        deadline = time.monotonic() + START_DEADLINE
        while not _answers(self.port):
            self._process.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.name} is ready but does not answer:\n{self._process.printed()}"
                )
            time.sleep(POLL)

    def cpu(self) -> float:
        """CPU time in seconds since the start."""
        return self._process.cpu()

    def memory(self) -> Memory:
        """Resident memory."""
        return self._process.memory()

    def _corefile(self) -> str:
        return COREFILE.format(
            port=self.port,
            bind="bind 127.0.0.1",
            health=free_port(),
            ready=self._ready_port,
            metrics=free_port(),
            upstream=free_port(),
            outside="",
            access="\n        ".join(self._access.properties),
        )


def _answers(port: int) -> bool:
    query = b"\0\1" + question(ZONE)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 1.0),
            socket.socket(type=socket.SOCK_DGRAM) as sock,
        ):
            sock.settimeout(1.0)
            sock.connect(("127.0.0.1", port))
            sock.send(query)
            return sock.recv(512)[:2] == query[:2]
    except OSError:
        return False


def _says_200(port: int, question: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as sock:
            sock.sendall(question)
            return sock.recv(64).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False
