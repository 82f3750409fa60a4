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
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.dns import is_answering, query_of, service_name
from loadtest.pressure.clients import Tools
from loadtest.pressure.corefile import Variation, corefile
from loadtest.process import Process
from loadtest.programs import CertificateFiles, Program
from loadtest.server import START_DEADLINE, Ports, serve
from loadtest.watch.access import Access

CORES: Final = 2


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

    process: Process

    def __init__(
        self,
        program: Program,
        access: Access,
        tools: Tools,
        files: CertificateFiles,
        variation: Variation,
        limits: Limits,
    ) -> None:
        self.ports = Ports.free()
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
            process = serve(self._program, self._text(0), self._folder, launcher=self._launcher())
            self.process = self._stack.enter_context(process)
            self._wait()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _text(self, serial: int) -> str:
        return corefile(self.ports, self._access, self._variation, self._files, serial)

    def write_corefile(self, serial: int) -> None:
        """Write the Corefile, as Kubernetes renews a mounted one: the new file replaces the old."""
        path = self._folder / "Corefile"
        beside = path.with_suffix(".new")
        beside.write_text(self._text(serial))
        beside.replace(path)

    def _launcher(self) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "loadtest.pressure.launch"),
            ",".join(map(str, server_cores()[0])),
            self._limits.descriptors or "same",
            "unread" if self._limits.unread else "same",
        )

    def _wait(self) -> None:
        query = query_of(service_name("team-0", "web-0"), "A")

        def answers() -> bool:
            return all(is_answering(self.ports.dns, query, tcp=tcp) for tcp in (False, True))

        self.process.wait_until(answers, START_DEADLINE, "does not answer")
