"""Part 1: the time from the start of the process until it is ready, and its memory when idle.

Path: plan.py -> here -> server.py.
Rule 1: the servers alternate, in reverse order every second round, so that neither always starts on a warmer machine.
Rule 2: in the last round both run until the long idle period is over: idle servers do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic

from loadtest.bench import Progress
from loadtest.programs import Program
from loadtest.server import ServerUnderTest
from loadtest.watch.fake_api_process import FakeApiProcess
from loadtest.watch.real_api import RealApi
from loadtest.watch.report import MB, Figure, figures

SHORT_IDLE = 10.0  # seconds after ready
LONG_IDLE = 180.0
_LATE, _PEAK = "resident 180 s after ready, MB", "most resident so far, MB"

Api = FakeApiProcess | RealApi


def measure(
    programs: Sequence[Program],
    api: Api,
    services: int,
    rounds: int,
    progress: Progress,
    *,
    long_idle: bool,
) -> list[Figure]:
    """Start every server `rounds` times; with `long_idle` they stay after the last one."""
    part = f"{services:,} Services" if services else "empty cluster"
    measured: list[Figure] = []
    for number in range(rounds):
        stays = long_idle and number == rounds - 1
        with ExitStack() as running:
            idle: list[tuple[ServerUnderTest, float]] = []
            for program in programs if number % 2 == 0 else programs[::-1]:
                server = running.enter_context(ServerUnderTest(program, api.access))
                before = api.cpu()
                ready = server.wait_ready()
                cpu, api_cpu = server.process.cpu(), api.cpu() - before
                since = monotonic() - server.started
                progress.pause(ready + SHORT_IDLE - since, f"{server.name} at rest")
                memory = server.process.memory()
                progress.log(
                    f"{server.name}, {part}, round {number + 1}: ready after {ready:.2f} s, "
                    f"CPU {cpu:.2f} s, resident {memory.now * MB:.0f} MB"
                )
                measured += figures(
                    part,
                    server.name,
                    ("start to ready, s", ready, 2),
                    ("CPU to ready, s", cpu, 2),
                    ("API server's CPU meanwhile, s", api_cpu, 2),
                    ("resident 10 s after ready, MB", memory.now * MB, 0),
                    (_LATE, None, 0),
                    (_PEAK, None if stays else memory.peak * MB, 0),
                )
                if stays:
                    idle.append((server, server.started + ready))
                else:
                    running.close()
            for server, since in idle:
                progress.pause(since + LONG_IDLE - monotonic(), f"{server.name} at rest")
                late = server.process.memory()
                late_figures = (_LATE, late.now * MB, 0), (_PEAK, late.peak * MB, 0)
                measured += figures(part, server.name, *late_figures)
    return measured
