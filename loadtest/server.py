"""hsdns and CoreDNS under test: their Corefile, which is kubeadm's on free ports, and their processes.

Path: a benchmark -> here -> process.py; ServerUnderTest is that of the benchmarks of watches.
Rule 1: `loop` and `lameduck` are left out; names outside the cluster are forwarded to a closed port.  `outside` are
        lines that answer some of them.
Rule 2: a server is ready when /ready returns 200, polled every five milliseconds from the start of the process.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.dns import ZONE, is_answering, query_of
from loadtest.generators import HSDNS
from loadtest.ports import free_port
from loadtest.process import Opened, Process
from loadtest.programs import NATIVE, PURE, ROOT, Program, configuration
from loadtest.watch.api_servers import Access

POLL: Final = 0.005  # seconds between two questions for /ready
START_DEADLINE: Final = 120.0


class Ports(NamedTuple):
    """The ports of a server, and of its upstream."""

    dns: int
    doh: int
    health: int
    ready: int
    metrics: int
    upstream: int
    dot: int

    @classmethod
    def free(cls) -> Self:
        """Ports that nobody has."""
        return cls(*(free_port() for _ in cls._fields))

    def corefile(self, access: str, bind: str = "bind 127.0.0.1", outside: str = "") -> str:
        """Kubeadm's Corefile; `access` is the body of the kubernetes directive."""
        words = {**self._asdict(), "access": access, "bind": bind, "outside": outside}
        return configuration("kubeadm.Corefile", **words)


def serve(
    program: Program,
    corefile: str,
    folder: Path,
    *,
    name: str = "",
    core: int | None = None,
    launcher: Sequence[str] = (),
) -> Process:
    """Write a Corefile into a folder and start hsdns or CoreDNS with it; `launcher` is a command that starts others."""
    name = name or program.key
    path = folder / ("Corefile" if launcher else f"{name}.Corefile")
    path.write_text(corefile)
    environ = {}
    if program.key in (NATIVE, PURE):
        environ["HSDNS_NO_EXTENSIONS"] = "1" if program.key == PURE else ""
    words = (*launcher, *program.words, "-conf", str(path))
    return Process(name, words, folder, environ=environ, cwd=ROOT, core=core)


def start(
    folder: Path,
    name: str,
    corefile: str,
    port: int,
    query: bytes = b"",
    *,
    words: Sequence[str] = HSDNS,
    core: int | None = None,
) -> Process:
    """Start hsdns, or what `words` starts, with a Corefile of its own, and wait until a port answers a query over TCP.

    Without a query nothing is waited for.
    """
    path = folder / f"{name}.Corefile"
    path.write_text(corefile)
    process = Process(name, (*words, "-conf", str(path)), folder, cwd=ROOT, core=core)
    if query:
        is_up = partial(is_answering, port, query, tcp=True, records=False)
        try:
            process.wait_until(is_up, START_DEADLINE, "does not answer")
        except BaseException:
            process.end()
            raise
    return process


class ServerUnderTest(Opened):
    """A running server that watches an API server; a context manager.  `started`: the clock time of its start."""

    process: Process

    def __init__(self, program: Program, access: Access, launcher: Sequence[str] = ()) -> None:
        super().__init__()
        self.name = program.name
        self.started = 0.0
        self.ports = Ports.free()
        self.port = self.ports.dns
        self._program, self._access, self._launcher = program, access.property, launcher

    def corefile(self) -> str:
        """Its Corefile."""
        return self.ports.corefile(self._access)

    def open(self) -> None:
        """Start it."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-dns-"))
        self.folder = Path(folder)
        self.started = time.monotonic()
        process = serve(
            self._program, self.corefile(), self.folder, name=self.name, launcher=self._launcher
        )
        self.process = self._stack.enter_context(process)

    def wait_ready(self) -> float:
        """Wait until the server is ready; return the seconds since its start."""
        is_ready = partial(_says_200, self.ports.ready, "/ready")
        self.process.wait_until(is_ready, START_DEADLINE, "is not ready", POLL)
        return time.monotonic() - self.started

    def wait_answering(self) -> None:
        """Wait until it is ready and answers over UDP and TCP, which CoreDNS does shortly after /ready returns 200."""
        self.wait_ready()
        self.wait_for(ZONE, records=False)

    def wait_for(self, name: str, *, records: bool = True) -> None:
        """Wait until it answers for a name over UDP and TCP, with records."""
        query = query_of(name, "A")

        def answers() -> bool:
            return all(
                is_answering(self.port, query, tcp=tcp, records=records) for tcp in (False, True)
            )

        self.process.wait_until(answers, START_DEADLINE, "does not answer", POLL)


def _says_200(port: int, path: str) -> bool:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as sock:
            sock.sendall(request.encode())
            return sock.recv(64).split(b" ")[1:2] == [b"200"]
    except OSError:
        return False
