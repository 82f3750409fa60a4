"""Part 1: the time from the start of the process until it is ready, and its memory when idle.

Path: plan.py -> here -> server.py.
Rule 1: the servers alternate, in reverse order every second round, so that neither always starts on a warmer machine.
Rule 2: in the last round both run until the long idle period is over: idle servers do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic
from typing import NamedTuple

from loadtest.bench import Progress
from loadtest.programs import Program
from loadtest.server import ServerUnderTest
from loadtest.watch.fake_api_process import FakeApiProcess
from loadtest.watch.real_api import RealApi

SHORT_IDLE = 10.0  # seconds after ready
LONG_IDLE = 180.0


Api = FakeApiProcess | RealApi


class Startup(NamedTuple):
    """One start.  Times in seconds, memory in octets; `late_memory`: after the long idle period, if any."""

    server: str
    services: int
    round: int
    ready: float
    cpu: float
    api_cpu: float
    memory: int
    peak: int
    late_memory: int | None = None


def measure(
    programs: Sequence[Program],
    api: Api,
    services: int,
    rounds: int,
    progress: Progress,
    *,
    long_idle: bool,
) -> list[Startup]:
    """Start every server `rounds` times."""
    measured: list[Startup] = []
    for number in range(rounds):
        order = programs if number % 2 == 0 else list(reversed(programs))
        if long_idle and number == rounds - 1:
            measured += _together(order, api, services, number, progress)
            continue
        for program in order:
            with ServerUnderTest(program, api.access) as server:
                measured.append(_start(server, api, services, number, progress))
    return measured


def _together(
    programs: Sequence[Program], api: Api, services: int, number: int, progress: Progress
) -> list[Startup]:
    with ExitStack() as running:
        started: list[tuple[ServerUnderTest, Startup, float]] = []
        for program in programs:
            server = running.enter_context(ServerUnderTest(program, api.access))
            first = _start(server, api, services, number, progress)
            started.append((server, first, server.started + first.ready))
        measured = []
        for server, first, ready_at in started:
            progress.pause(ready_at + LONG_IDLE - monotonic(), f"{server.name} at rest")
            late = server.process.memory()
            measured.append(first._replace(late_memory=late.now, peak=late.peak))
        return measured


def _start(
    server: ServerUnderTest, api: Api, services: int, number: int, progress: Progress
) -> Startup:
    api_before = api.cpu()
    ready = server.wait_ready()
    cpu, api_cpu = server.process.cpu(), api.cpu() - api_before
    progress.pause(ready + SHORT_IDLE - (monotonic() - server.started), f"{server.name} at rest")
    memory = server.process.memory()
    progress.log(
        f"{server.name}, {services:,} Services, round {number + 1}: ready after {ready:.2f} s, "
        f"CPU {cpu:.2f} s, resident {memory.now / 1e6:.0f} MB"
    )
    return Startup(server.name, services, number, ready, cpu, api_cpu, memory.now, memory.peak)
