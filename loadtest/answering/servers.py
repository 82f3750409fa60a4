"""Starts the servers under test: writes the configuration, starts the process on its core, and waits until it answers.

Path: run.py -> here -> programs.py (which), process.py.
Rule 1: hsdns and CoreDNS have the same Corefile, kubeadm's, on free ports of loopback; `loop` and `lameduck` are left
        out, and names outside the cluster are forwarded to a closed port.
Rule 2: the other servers serve the zone file of cluster.py, with one thread.  Everything unnecessary is off: no control
        socket, no pid file, no change of user, no rate limit.
Rule 3: all have receive buffers of equal size (drain.py).
Rule 4: a server is ready when it answers a query for a name of the cluster with records.
"""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from hsdns.wire.framing import frame
from loadtest.answering.cluster import ZONE, Cluster
from loadtest.answering.drain import enlarge_buffers
from loadtest.answering.mixes import DOH, DOT, Mix
from loadtest.dns import is_answering, query_of
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Opened, Process
from loadtest.programs import (
    COREDNS,
    DICT,
    ECHO,
    KNOT,
    NATIVE,
    NSD,
    PURE,
    ROOT,
    TWO,
    UNBOUND,
    Program,
    compile_c,
    configuration,
)
from loadtest.server import START_DEADLINE, Ports, start
from tests.support.upstreams.certificate import Certificate

_PAUSE = 0.02
_FOREGROUND: Final = {
    KNOT: ("-c",),
    NSD: ("-d", "-c"),
    UNBOUND: ("-d", "-c"),
}


class RunSettings(NamedTuple):
    """Settings shared by all servers of a run.  `core` is the core of the servers (None: any)."""

    folder: Path
    cluster: Cluster
    zone_file: Path
    core: int | None
    files: Certificate | None = None

    def write_zone(self) -> None:
        """Write the zone file."""
        with self.zone_file.open("w") as file:
            file.writelines(f"{line}\n" for line in self.cluster.zone_lines())


class Server(Opened):
    """A running server; a context manager.

    `changes`: events per second in its cluster; `known`: the queries and replies of a mix, for a server without DNS.
    """

    process: Process

    def __init__(
        self,
        settings: RunSettings,
        program: Program,
        name: str,
        *,
        changes: int = 0,
        known: Sequence[tuple[bytes, bytes]] = (),
        tcp: bool = False,
    ) -> None:
        super().__init__()
        self.program = program
        self._ports = Ports.free()
        self.port = self._ports.dns
        self._settings, self._changes, self._known = settings, changes, known
        self._tcp = tcp
        self._folder = settings.folder / name
        self._folder.mkdir()
        self._processes: list[Process] = []  # the API server of CoreDNS, and the server

    def open(self) -> None:
        """Start it."""
        self.process = self._started(self._start())
        has_records = self.program.key not in (ECHO, DICT)
        query = (
            self._known[0][0] if self._known else query_of(self._settings.cluster.service(0), "A")
        )
        tcp = self._tcp and not has_records
        is_up = partial(is_answering, self.port, query, tcp=tcp, records=has_records)
        self.process.wait_until(is_up, START_DEADLINE, "does not answer", _PAUSE)
        for pid in self.process.pids():
            enlarge_buffers(pid, self.port)

    def port_for(self, mix: Mix) -> int:
        """The port of a mix's transport."""
        return {DOT: self._ports.dot, DOH: self._ports.doh}.get(mix.over, self.port)

    def pause(self) -> None:
        """Stop the process that changes its cluster, and the server."""
        for process in self._processes:
            process.stop()

    def resume(self) -> None:
        """Continue both."""
        for process in self._processes:
            process.resume()

    def _started(self, process: Process) -> Process:
        self._processes.append(self._stack.enter_context(process))
        return process

    def _start(self) -> Process:
        """Write the configuration, and start the program."""
        key, words, settings = self.program.key, self.program.words, self._settings
        core = settings.core
        if key in (NATIVE, PURE, TWO, COREDNS):
            access = self._api() if key == COREDNS else self._source()
            if key == TWO:
                core, words = None, ("taskset", "-c", f"0-{(os.cpu_count() or 1) - 1}", *words)
            corefile = self._ports.corefile(access, settings.cluster.cached_block(), settings.files)
            environ = self.program.environ
            return start(self._folder, key, corefile, words=words, core=core, environ=environ)  # fmt: skip
        if key in (ECHO, DICT):
            words = self._replaying()
        else:
            path = self._folder / "configuration"
            known = {"folder": self._folder, "port": self.port}
            zone = {"zone": ZONE, "zone_file": settings.zone_file}
            path.write_text(configuration(f"{key}.conf", **known, **zone))
            words = (*words, *_FOREGROUND[key], str(path))
        return Process(key, words, self._folder, cwd=ROOT, core=core)

    def _replaying(self) -> tuple[str, ...]:
        """The command of a server that repeats the replies of another one."""
        title, known, folder = self.program.title, self._known, self._folder
        if not known:
            raise BenchmarkError(f"{title} needs the replies of another server; measure one more")
        if self.program.key == DICT:
            pairs = folder / "pairs"
            pairs.write_bytes(b"".join(frame(each) for pair in known for each in pair))
            script = ROOT / "loadtest/answering/dict_server.py"
            return (*self.program.words, str(script), str(self.port), str(pairs))
        sizes = folder / "sizes"
        sizes.write_bytes(array("H", [len(reply) for _, reply in known]).tobytes())
        program = compile_c(ROOT / "loadtest/answering/echo.c", folder)
        return (str(program), str(self.port), str(sizes), *(["tcp"] if self._tcp else []))

    def _source(self) -> str:
        changes = f" changes={self._changes}" if self._changes else ""
        return f"source {self._settings.cluster.source}{changes}"

    def _api(self) -> str:
        port, cluster = free_port(), self._settings.cluster
        numbers = (port, cluster.services, cluster.endpoints, self._changes)
        words = (sys.executable, "-m", "loadtest.answering.cluster", *map(str, numbers))
        self._started(Process("api-server", words, self._folder, cwd=ROOT))
        return f"endpoint http://127.0.0.1:{port}"
