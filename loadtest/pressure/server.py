"""A server under pressure, hsdns, compiled or pure, or CoreDNS, and its Corefile.

Path: run.py, soak.py -> here -> machine.py (cores, limits, standard output) -> the program.
Rule 1: all have kubeadm's Corefile (loadtest/server.py), with additions for a row, and watch the same API server.
Rule 2: it runs on the first two cores.  The attackers get the others, or share these two if there are no others.
Rule 3: it is ready when it answers for the cluster with records, over UDP and TCP.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.dns import service_name
from loadtest.pressure.clients import Tools
from loadtest.process import Process
from loadtest.programs import Program
from loadtest.server import Ports, ServerUnderTest
from loadtest.watch.api_servers import Access
from tests.support.upstreams.certificate import Certificate

ZONE_OCTETS = 473  # octets of another server block, roughly
_HOSTS = 10  # lines in it


class Variation(NamedTuple):
    """The differences from kubeadm's Corefile.

    `bulk`: octets of server blocks for other zones; `interval`: of `reload`.
    """

    log: bool = False
    doh: bool = False  # and DNS over TLS
    zonal: bool = False
    debug: bool = False
    unlimited: bool = False  # `forward` without max_concurrent
    dashboard: bool = False  # at the address of `health`
    bulk: int = 0
    interval: str = ""


def corefile(
    ports: Ports, access: str, variation: Variation, files: Certificate, serial: int = 0
) -> str:
    """Write the Corefile; each serial gives another configuration."""
    text = ports.corefile(access, files=files if variation.doh else None)
    errors, pods = "    errors\n", "        pods insecure\n"
    for is_so, line, new in (
        (variation.log, errors, f"{errors}    log\n"),
        (variation.debug, errors, f"{errors}    debug\n"),
        (variation.dashboard, errors, f"{errors}    dashboard 127.0.0.1:{ports.health}\n"),
        (variation.zonal, pods, f"{pods}        zonal\n"),
        (variation.unlimited, " {\n        max_concurrent 1000\n    }\n", "\n"),
        (variation.interval, "    reload\n", f"    reload {variation.interval} 1s\n"),
    ):
        if is_so:
            if text.count(line) != 1:
                raise ValueError(f"the Corefile of the benchmarks has no {line!r}")
            text = text.replace(line, new)
    blocks = [_block(ports, number, serial) for number in range(variation.bulk // ZONE_OCTETS)]
    return text + "".join(blocks)


def _block(ports: Ports, number: int, serial: int) -> str:
    hosts = "".join(
        f"        192.0.2.{line + 1} host-{line}-{serial}.zone-{number}.test\n"
        for line in range(_HOSTS)
    )
    return (
        f"zone-{number}.test:{ports.dns} {{\n    bind 127.0.0.1\n    hosts {{\n{hosts}    }}\n}}\n"
    )


CORES: Final = 2


class Limits(NamedTuple):
    """How the process is started.  `descriptors`: "SOFT:HARD" for open files."""

    unread: bool = False  # nobody reads its standard output
    descriptors: str = ""


def server_cores() -> tuple[list[int], list[int]]:
    """The cores of the servers, and those of all other processes."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[:CORES], usable[CORES:] or usable


class ServerUnderPressure(ServerUnderTest):
    """A running server with its upstream; a context manager."""

    def __init__(
        self,
        program: Program,
        access: Access,
        tools: Tools,
        files: Certificate,
        variation: Variation,
        limits: Limits,
    ) -> None:
        launcher = (
            *(sys.executable, "-m", "loadtest.pressure.machine", "launch"),
            ",".join(map(str, server_cores()[0])),
            limits.descriptors or "same",
            "unread" if limits.unread else "same",
        )
        super().__init__(program, access, launcher)
        self._tools, self._files, self._variation = tools, files, variation
        self._serial = 0

    def corefile(self) -> str:
        """Its Corefile; each serial gives another one."""
        return corefile(self.ports, self._access, self._variation, self._files, self._serial)

    def open(self) -> None:
        """Start both."""
        folder = tempfile.TemporaryDirectory(prefix="bench-upstream-")
        upstream = (str(self._tools.upstream), str(self.ports.upstream))
        where = Path(self._stack.enter_context(folder))
        self._stack.enter_context(Process("upstream", upstream, where))
        super().open()
        self.wait_for(service_name("team-0", "web-0"))

    def write_corefile(self, serial: int) -> None:
        """Write the Corefile, as Kubernetes renews a mounted one: the new file replaces the old."""
        self._serial, path = serial, self.folder / f"{self.name}.Corefile"
        beside = path.with_suffix(".new")
        beside.write_text(self.corefile())
        beside.replace(path)
