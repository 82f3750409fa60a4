"""Starts the servers under test: writes the configuration, starts the process on its core, and waits until it answers.

Path: run.py -> here -> programs.py (which), peers.py (configurations), usage.py (process).
Rule 1: hsdns and CoreDNS have the same Corefile, kubeadm's, on free ports of loopback; `loop` and `lameduck` are left
        out, and names outside the cluster are forwarded to a closed port.
Rule 2: all have receive buffers of equal size (buffers.py).
Rule 3: a server is ready when it answers a query for a name of the cluster with records.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from hsdns.wire.framing import frame
from loadtest.answering import peers
from loadtest.answering.buffers import enlarge_buffers
from loadtest.answering.client import is_answering
from loadtest.answering.cluster import Cluster, Question
from loadtest.answering.packets import query_of
from loadtest.answering.usage import MeasuredProcess
from loadtest.corefile import COREFILE
from loadtest.ports import free_port
from loadtest.process import BenchmarkError
from loadtest.programs import (
    COREDNS,
    DICT,
    DNSDIST,
    ECHO,
    KNOT,
    NATIVE,
    NSD,
    PURE,
    ROOT,
    UNBOUND,
    Program,
    compile_c,
)

START_DEADLINE = 120.0
_PAUSE = 0.02
_FOREGROUND = {
    KNOT: (peers.KNOT, ("-c",)),
    NSD: (peers.NSD, ("-d", "-c")),
    UNBOUND: (peers.UNBOUND, ("-d", "-c")),
    DNSDIST: (peers.DNSDIST, ("--supervised", "--disable-syslog", "-C")),
}
BACKENDS = (KNOT, NSD, PURE, NATIVE)  # dnsdist uses the first of these that runs


class RunSettings(NamedTuple):
    """Settings shared by all servers of a run.  `core` is the core of the servers (None: any)."""

    folder: Path
    cluster: Cluster
    zone_file: Path
    core: int | None
    wildcard: bool = False  # hsdns and CoreDNS listen on all addresses, as in kubeadm's Corefile


class Server:
    """A running server; a context manager.

    `changes`: events per second in its cluster; `known`: the queries and replies of a mix, for a server without DNS;
    `backend`: the port of the server behind a proxy.
    """

    def __init__(
        self,
        settings: RunSettings,
        program: Program,
        name: str,
        *,
        changes: int = 0,
        known: Sequence[tuple[bytes, bytes]] = (),
        backend: int = 0,
        tcp: bool = False,
    ) -> None:
        self.program = program
        self.port = free_port()
        self._settings = settings
        self._changes = changes
        self._pairs = known
        self._tcp = tcp
        self._folder = settings.folder / name
        self._folder.mkdir()
        self._location = peers.Location(self._folder, self.port, settings.zone_file, backend)
        self._api_server: MeasuredProcess | None = None  # the API server of CoreDNS
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            words = self._prepare()
            environ: Mapping[str, str] = {}
            if self.program.key in (NATIVE, PURE):
                environ = {"HSDNS_NO_EXTENSIONS": "1" if self.program.key == PURE else ""}
            self.process = self._stack.enter_context(
                MeasuredProcess(
                    self.program.key, words, self._folder, self._settings.core, environ, cwd=ROOT
                )
            )
            self._wait(self.process, self.port)
            for pid in self.process.pids():
                enlarge_buffers(pid, self.port)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def pause(self) -> None:
        """Stop the server and the process that changes its cluster."""
        if self._api_server is not None:
            self._api_server.stop()
        self.process.stop()

    def resume(self) -> None:
        """Continue both."""
        if self._api_server is not None:
            self._api_server.resume()
        self.process.resume()

    def _prepare(self) -> tuple[str, ...]:
        """Write the configuration, and return the command that starts the program."""
        key, words = self.program.key, self.program.words
        if key == ECHO:
            return self._echo_command()
        if key == DICT:
            pairs = self._folder / "pairs"
            pairs.write_bytes(
                b"".join(map(frame, (each for pair in self._known() for each in pair)))
            )
            return (*words, str(ROOT / "loadtest/dict_server.py"), str(self.port), str(pairs))
        if key in _FOREGROUND:
            template, options = _FOREGROUND[key]
            return (*words, *options, str(peers.write(template, self._location)))
        corefile = self._folder / "Corefile"
        corefile.write_text(
            COREFILE.format(
                port=self.port,
                bind="" if self._settings.wildcard else "bind 127.0.0.1",
                access=self._api() if key == COREDNS else self._source(),
                health=free_port(),
                ready=free_port(),
                metrics=free_port(),
                outside=self._settings.cluster.cached_block(),
                upstream=free_port(),
            )
        )
        return (*words, "-conf", str(corefile))

    def _known(self) -> Sequence[tuple[bytes, bytes]]:
        if not self._pairs:
            raise BenchmarkError(
                f"{self.program.title} needs the replies of another server; measure one more"
            )
        return self._pairs

    def _echo_command(self) -> tuple[str, ...]:
        program = compile_c(ROOT / "loadtest/echo.c", self._folder)
        sizes = self._folder / "sizes"
        sizes.write_bytes(array("H", [len(reply) for _, reply in self._known()]).tobytes())
        return (str(program), str(self.port), str(sizes), *(["tcp"] if self._tcp else []))

    def _source(self) -> str:
        return f"source {self._settings.cluster.source}" + (
            f" changes={self._changes}" if self._changes else ""
        )

    def _api(self) -> str:
        port, cluster = free_port(), self._settings.cluster
        numbers = (port, cluster.services, cluster.endpoints, self._changes)
        words = (sys.executable, "-m", "loadtest.answering.cluster_api", *map(str, numbers))
        self._api_server = self._stack.enter_context(
            MeasuredProcess("api-server", words, self._folder, None, cwd=ROOT)
        )
        return f"endpoint http://127.0.0.1:{port}"

    def _wait(self, process: MeasuredProcess, port: int) -> None:
        records = self.program.key not in (ECHO, DICT)
        query = query_of(Question(self._settings.cluster.service(0), "A"), edns=False)
        if self._pairs:
            query = self._pairs[0][0]
        deadline = time.monotonic() + START_DEADLINE
        while not is_answering(port, query, tcp=self._tcp and not records, records=records):
            process.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{self.program.title} does not answer after {START_DEADLINE:.0f} s:\n{process.printed()}"
                )
            time.sleep(_PAUSE)
