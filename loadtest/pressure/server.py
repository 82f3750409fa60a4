"""A server under pressure: hsdns, compiled or pure, or CoreDNS.

Path: run.py, soak.py -> here -> launch.py (cores, limits, standard output) -> the program.
Rule 1: all have the same Corefile (corefile.py) and watch the same API server.
Rule 2: it runs on the first two cores.  The attackers get the others, or share these two if there are no others.
Rule 3: it is ready when it answers for the cluster with records, over UDP and TCP.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.answering.client import is_answering
from loadtest.answering.cluster import Question
from loadtest.answering.packets import query_of
from loadtest.ports import free_port
from loadtest.pressure.clients import Tools
from loadtest.pressure.corefile import Ports, Variation, corefile
from loadtest.process import BenchmarkError, Memory, Process
from loadtest.programs import NATIVE, PURE, ROOT, CertificateFiles, Program
from loadtest.watch.access import Access
from loadtest.watch.dns import service_name

CORES: Final = 2
START_DEADLINE: Final = 90.0
_PAUSE = 0.05


class Limits(NamedTuple):
    """How the process is started.  `descriptors`: "SOFT:HARD" for open files."""

    unread: bool = False  # nobody reads its standard output
    descriptors: str = ""


def server_cores() -> tuple[list[int], list[int]]:
    """The cores of the servers, and those of all other processes."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[:CORES], usable[CORES:] or usable


class ServerUnderPressure:
    """A running server with its upstream; a context manager."""

    def __init__(
        self,
        program: Program,
        access: Access,
        tools: Tools,
        files: CertificateFiles,
        variation: Variation,
        limits: Limits,
    ) -> None:
        self.title = program.title
        self.ports = Ports(*(free_port() for _ in Ports._fields))
        self._program = program
        self._access = "\n        ".join(access.properties)
        self._tools = tools
        self._files = files
        self._variation = variation
        self._limits = limits
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            folder = tempfile.TemporaryDirectory(prefix="bench-pressure-")
            self._folder = Path(self._stack.enter_context(folder))
            upstream = (str(self._tools.upstream), str(self.ports.upstream))
            self._stack.enter_context(Process("upstream", upstream, self._folder))
            self.write_corefile(0)
            words = (*self._program.words, "-conf", str(self._folder / "Corefile"))
            environ = {}
            if self._program.key in (NATIVE, PURE):
                environ["HSDNS_NO_EXTENSIONS"] = "1" if self._program.key == PURE else ""
            launched = (*self._launcher(), *words)
            self._process = self._stack.enter_context(
                Process(self._program.key, launched, self._folder, environ=environ, cwd=ROOT)
            )
            self._wait()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write_corefile(self, serial: int) -> None:
        """Write the Corefile, as Kubernetes renews a mounted one: the new file replaces the old."""
        text = corefile(self.ports, self._access, self._variation, self._files, serial)
        path = self._folder / "Corefile"
        beside = path.with_suffix(".new")
        beside.write_text(text)
        beside.replace(path)

    def check(self) -> None:
        """Raise BenchmarkError if the server has ended."""
        self._process.check()

    def cpu(self) -> float:
        """CPU time in seconds since the start; raise BenchmarkError if the server has ended."""
        return self._process.cpu()

    def memory(self) -> Memory:
        """Resident memory; raise BenchmarkError if the server has ended."""
        return self._process.memory()

    def log_lines(self) -> int:
        """The number of lines that it has logged."""
        return self._process.log_lines()

    def _launcher(self) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "loadtest.pressure.launch"),
            ",".join(map(str, server_cores()[0])),
            self._limits.descriptors or "same",
            "unread" if self._limits.unread else "same",
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_DEADLINE
        query = query_of(Question(service_name("team-0", "web-0"), "A"), edns=False)
        while not (
            is_answering(self.ports.dns, query) and is_answering(self.ports.dns, query, tcp=True)
        ):
            self._process.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.title} does not answer after {START_DEADLINE:.0f} s:\n"
                    f"{self._process.printed()}"
                )
            time.sleep(_PAUSE)
