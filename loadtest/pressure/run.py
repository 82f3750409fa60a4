"""Measures each row on each server in turn.

Path: __main__.py -> here -> server.py, clients.py, judge.py -> results.Outcome.
Rule 1: it measures first without pressure, then the same clients under it, on the same server: an honest client is
        compared with itself.
Rule 2: CPU time is that from the first query of the attackers to the last.
Rule 3: a server that ends is an outcome, not an error of the benchmark.
Rule 4: all the time there are probes: of /health as requested by a kubelet, and one query over a new connection.  30 ms
        pass between connection and request, as with a kubelet on a busy node.  More than a second is a failure.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Final, NamedTuple

from hsdns.http2 import DATA, split
from hsdns.wire.framing import frame
from loadtest.bench import Progress
from loadtest.dns import ZONE, query_of, service_name
from loadtest.pressure.attackers import client_context, dns_path, header_block, opening, request
from loadtest.pressure.clients import HONEST, Client, Counts, Flood, Presser, Tools
from loadtest.pressure.hostile_yaml import Reading, read
from loadtest.pressure.judge import Judge
from loadtest.pressure.machine import Control, raise_priority
from loadtest.pressure.results import Honest, Outcome, Probed
from loadtest.pressure.rows import Row
from loadtest.pressure.server import ServerUnderPressure, Variation, server_cores
from loadtest.process import BenchmarkError, InThread
from loadtest.programs import COREDNS, Program
from loadtest.server import status_of
from loadtest.watch.api_servers import FakeApiProcess
from tests.support.upstreams.certificate import Certificate

CHANGES: Final = 20.0  # each second
CACHED: Final = "www.cached.example"
_HONEST_RATE = 100.0
_LEAD = 0.5  # seconds of pressure before it is measured
EVERY: Final = 0.1  # seconds
PAUSE: Final = 0.03  # seconds from connection to request
TIMEOUT: Final = 1.0


class Effort(NamedTuple):
    """Seconds without pressure and under it."""

    quiet: float = 4.0
    pressed: float = 7.0


QUICK: Final = Effort(1.5, 4.0)


class Bench(NamedTuple):
    """Shared by all rows."""

    api: FakeApiProcess
    tools: Tools
    files: Certificate
    progress: Progress
    effort: Effort


def measure_rows(bench: Bench, rows: Sequence[Row], programs: Sequence[Program]) -> list[Outcome]:
    """Measure all rows."""
    outcomes = []
    for row in rows:
        for program in programs:
            if program.key == COREDNS and not row.peers:
                continue
            outcome = measure_one(bench, row, program)
            outcomes.append(outcome)
            bench.progress.log(f"{row.key}, {program.title}: {brief(outcome)}")
    return outcomes


def brief(outcome: Outcome) -> str:
    """An outcome in one line."""
    if outcome.ended:
        return outcome.ended.replace("\n", " ")[:300]
    said = [f"answered {outcome.pressing.share:.0%}"] if outcome.pressing.sent else []
    if outcome.events is not None:
        said.append(f"event p99 {outcome.events.p99 * 1e3:,.1f} ms")
    said.append(f"CPU {outcome.cpu:.1f} s")
    said.append(f"peak {outcome.memory_peak / 1e6:.0f} MB")
    return ", ".join(said)


def measure_one(bench: Bench, row: Row, program: Program) -> Outcome:
    """Measure one server under one kind of pressure."""
    if row.files:
        return outcome_of_files(row, program, [read(name) for name in row.files])
    try:
        with ServerUnderPressure(
            program, bench.api.access, bench.tools, bench.files, row.variation, row.limits
        ) as server:
            return _measure(bench, row, program, server)
    except BenchmarkError as error:
        return Outcome(row.key, program.key, Counts(0, 0, 0), ended=str(error))


def outcome_of_files(row: Row, program: Program, readings: Sequence[Reading]) -> Outcome:
    """The highest cost of any file; `answered` are those that were read or refused."""
    faults = [each.ended for each in readings if each.ended]
    counts = Counts(len(readings), len(readings), len(readings) - len(faults))
    cpu, peak = max(each.cpu for each in readings), max(each.peak for each in readings)
    ended = "; ".join(faults)
    return Outcome(row.key, program.key, counts, cpu=cpu, memory_peak=peak, ended=ended)


class _Phase(NamedTuple):
    """The results of the honest clients, with or without pressure."""

    clients: dict[str, Counts]
    probed: dict[str, Probed]
    judge: Judge


def _measure(bench: Bench, row: Row, program: Program, server: ServerUnderPressure) -> Outcome:
    floods = {key: honest_flood(key) for key in HONEST_NAMES}
    quiet = run_phase(bench, server, floods, bench.effort.quiet, row.variation)
    before, cpu = server.process.memory(), server.process.cpu()
    lines = server.process.log_lines()
    seconds = bench.effort.pressed + _LEAD
    with ExitStack() as stack:
        control = stack.enter_context(Control(server_cores()[0]))
        pressing = [start(stack, bench.tools, server, each, seconds) for each in row.pressers]
        stack.enter_context(Rewriter(server, row.rewrite))
        time.sleep(_LEAD)
        pressed = run_phase(bench, server, floods, bench.effort.pressed, row.variation)
        counts = [each.counts() for each in pressing]
        spent = server.process.cpu() - cpu
        late = control.result().p99
    after, history = server.process.memory(), pressed.judge.history
    counted = counts[0] if counts else Counts(0, 0, 0)
    honest = {key: Honest(found, pressed.clients[key]) for key, found in quiet.clients.items()}
    logged = server.process.log_lines() - lines
    return Outcome(
        row.key, program.key, counted, honest, pressed.probed, pressed.judge.spread(), dict(history.counts),
        history.worst_age, spent, seconds, before.now, after.now, after.peak, logged, late,
    )  # fmt: skip


HONEST_NAMES: Final = {
    "cluster": (service_name("team-1", "web-150"),),  # from the answer table
    "external": (CACHED,),
    "chained": (f"#.team-1.pod.{ZONE}",),  # another Pod each time, which no table has
}


def honest_flood(key: str) -> Flood:
    """An honest client; unlike the attackers, it uses the address 127.0.0.1."""
    return Flood(f"honest-{key}", HONEST_NAMES[key], _HONEST_RATE, HONEST)


def start(
    stack: ExitStack,
    tools: Tools,
    server: ServerUnderPressure,
    presser: Presser,
    seconds: float,
    *,
    is_honest: bool = False,
    yields: bool = False,
) -> Client:
    """Start a client; it ends with the stack."""
    words = presser.words(tools, server.ports, seconds)
    return stack.enter_context(Client(words, seconds, honest=is_honest, yields=yields))


def run_phase(
    bench: Bench,
    server: ServerUnderPressure,
    floods: dict[str, Flood],
    seconds: float,
    variation: Variation,
) -> _Phase:
    """Run the honest clients and the judge for some seconds."""
    query = b"\0\7" + query_of(service_name("team-1", "web-151"), "A")[2:]
    ports = server.ports
    probes = {"health": health_probe(ports.health), "TCP": tcp_probe(ports.dns, query)}
    if variation.doh:
        probes |= {"DoT": dot_probe(ports.dot, query), "DoH": doh_probe(ports.doh, query)}
    with ExitStack() as stack:
        probing = {kind: stack.enter_context(Probes(probe)) for kind, probe in probes.items()}
        clients = {
            key: start(stack, bench.tools, server, flood, seconds, is_honest=True)
            for key, flood in floods.items()
        }
        judge = Judge(server.ports.dns, bench.api, CHANGES, seconds)
        judge.start()
        counts = {key: client.counts() for key, client in clients.items()}
        judge.join()
        judge.spread()
        return _Phase(counts, {kind: each.result for kind, each in probing.items()}, judge)


class Rewriter(InThread):
    """Changes the Corefile of a server at once and every so many seconds; a context manager.  0: never."""

    def __init__(self, server: ServerUnderPressure, every: float) -> None:
        super().__init__()
        self._server = server
        self._every = every

    def run(self) -> None:
        """Write one Corefile after the other."""
        for serial in count(1) if self._every else ():
            self._server.write_corefile(serial)
            if self._over.wait(self._every):
                return


# --- probes ---


class Probes(InThread):
    """Probes of one kind, one after the other; a context manager that ends them."""

    def __init__(self, probe: Callable[[], bool]) -> None:
        super().__init__()
        self._probe = probe
        self._sent = self._answered = 0

    @property
    def result(self) -> Probed:
        """The counts so far."""
        return Probed(self._sent, self._answered)

    def run(self) -> None:
        """Probe until it is over."""
        raise_priority()
        while not self._over.wait(EVERY):
            began = time.monotonic()
            try:
                answered = self._probe() and time.monotonic() - began < TIMEOUT
            except OSError:
                answered = False
            self._answered += answered
            self._sent += 1  # only now: the counts are read while a probe waits


def health_probe(port: int) -> Callable[[], bool]:
    """Request /health."""
    return lambda: status_of(port, "/health", PAUSE) == "200"


def tcp_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over TCP."""
    return lambda: _is_answered(_connect(port), query)


def dot_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over TLS, from the address of the clients that attack over HTTPS."""
    context = client_context("dot")
    return lambda: _is_answered(context.wrap_socket(_connect(port)), query)


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT)


def _is_answered(connected: socket.socket, query: bytes) -> bool:
    with connected as sock:
        sock.sendall(frame(query))
        return sock.recv(4096)[2:4] == query[:2]


def doh_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over HTTPS, from the address of the clients that attack there."""
    context = client_context("h2")

    def probe() -> bool:
        received = bytearray()
        with context.wrap_socket(_connect(port)) as sock:
            sock.sendall(opening() + request(1, header_block(dns_path(query))))
            while data := sock.recv(4096):
                received += data
                if any(each.kind == DATA and each.payload for each in split(received)):
                    return True
        return False

    return probe
