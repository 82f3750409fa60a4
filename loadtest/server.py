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
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.dns import ZONE, is_answering, query_of
from loadtest.generators import HSDNS
from loadtest.ports import free_port
from loadtest.process import Opened, Process
from loadtest.programs import ROOT, Program, configuration
from loadtest.watch.api_servers import Access
from tests.support.upstreams.certificate import Certificate

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

    def corefile(self, access: str, outside: str = "", files: Certificate | None = None) -> str:
        """Kubeadm's Corefile; `access` is the body of the kubernetes directive, and `files` are for TLS and HTTPS."""
        secure = ""
        if files is not None:
            secure = f" https://.:{self.doh} tls://.:{self.dot}"
            outside += f"\n    tls {files.cert} {files.key}"
        words = {**self._asdict(), "secure": secure, "access": access, "outside": outside}
        return configuration("kubeadm.Corefile", **words)


def start(
    folder: Path,
    name: str,
    corefile: str,
    *,
    words: Sequence[str] = HSDNS,
    core: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Process:
    """Start hsdns, or what `words` starts, with a Corefile of its own in a folder."""
    path = folder / f"{name}.Corefile"
    path.write_text(corefile)
    words = (*words, "-conf", str(path))
    return Process(name, words, folder, environ=environ, cwd=ROOT, core=core)


def wait_answering(process: Process, port: int, query: bytes) -> None:
    """Wait until a port answers a query over TCP; raise BenchmarkError."""
    is_up = partial(is_answering, port, query, tcp=True, records=False)
    process.wait_until(is_up, START_DEADLINE, "does not answer")


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
        program = self._program
        words, environ = (*self._launcher, *program.words), program.environ
        process = start(self.folder, self.name, self.corefile(), words=words, environ=environ)
        self.process = self._stack.enter_context(process)

    def wait_ready(self) -> float:
        """Wait until the server is ready; return the seconds since its start."""

        def is_ready() -> bool:
            return status_of(self.ports.ready, "/ready") == "200"

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


def status_of(port: int, path: str, pause: float = 0.0) -> str:
    """The status of a page, asked for `pause` seconds after the connection; raise OSError, also without an answer."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 1.0) as sock:
        time.sleep(pause)
        sock.sendall(request.encode())
        begin = sock.recv(64)
    if not begin.startswith(b"HTTP/1.1 "):
        raise ConnectionError("no answer")
    return begin[9:12].decode()
