"""The machine's own delays: how late an otherwise idle process wakes up, and the time that a hypervisor took.

    python -m loadtest.pressure.lateness CORES

Path: run.py, soak.py -> Control -> this process, on the server's cores with its priority -> READY, a line of JSON.
Rule 1: it sets a timer RATE times a second, like the events, and records how late each one was.  Timers that expire
        while it waits for a core are late too, and count: no figure of a server on these cores can be better.
Rule 2: a time of LONG or more for which it was late is kept: a server on these cores could do nothing in it, either.
Rule 3: it ends when its standard input does, and so with the benchmark.
Source: proc_stat(5), the first line; sched(7), autogroup.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.figures import Spread
from loadtest.process import BenchmarkError
from loadtest.programs import ROOT

RATE: Final = 200.0  # times a second
LONG: Final = 0.02  # seconds
READY: Final = "ready"
_TIMEOUT: Final = 10.0
_STAT: Final = Path("/proc/stat")


class CpuTimes(NamedTuple):
    """Ticks of all cores since the start of the machine."""

    idle: int
    stolen: int
    all: int

    @classmethod
    def of(cls, stat: str) -> Self:
        """Read the first line of /proc/stat."""
        fields = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
        return cls(fields[3] + fields[4], fields[7], sum(fields))


Gap = tuple[float, float]  # the monotonic times at which a timer was due, and came


class Machine(NamedTuple):
    """Seconds late, and shares of the time of all cores: `stolen` by other machines, `idle` with nothing to run."""

    ticks: int
    p99: float
    worst: float
    stolen: float
    idle: float
    gaps: Sequence[Gap] = ()  # of LONG or more


class Control:
    """The otherwise idle process; a context manager that ends it."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = ",".join(map(str, cores))

    def __enter__(self) -> Self:
        self._before = CpuTimes.of(_STAT.read_text())
        self._process = subprocess.Popen(
            (sys.executable, "-m", "loadtest.pressure.lateness", self._cores),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            start_new_session=True,  # as for the server: Linux divides cores between sessions first
        )
        assert self._process.stdout is not None, "a pipe"
        self._process.stdout.readline()  # its start takes the server's cores, so nothing is judged before
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def result(self) -> Machine:
        """End it and return its results; raise BenchmarkError."""
        try:
            out, _ = self._process.communicate(timeout=_TIMEOUT)
            figures, gaps = json.loads(out)
            spread = Spread(*figures)
        except (subprocess.TimeoutExpired, ValueError, TypeError):
            raise BenchmarkError("the process that notes how late it is does not say it") from None
        after = CpuTimes.of(_STAT.read_text())
        idle, stolen, ticks = (now - then for now, then in zip(after, self._before, strict=True))
        ticks = max(1, ticks)
        rest = stolen / ticks, idle / ticks, [(due, came) for due, came in gaps]
        return Machine(spread.samples, spread.p99, spread.worst, *rest)


def lateness(
    wait: Callable[[float], bool], clock: Callable[[], float]
) -> tuple[list[float], list[Gap]]:
    """How late each timer was, and the gaps; `wait` waits for some seconds and tells whether it is over."""
    late = []
    gaps = []
    due = clock() + 1 / RATE
    while not wait(max(0.0, due - clock())):
        now = clock()
        if now - due >= LONG:
            gaps.append((due, now))
        while due <= now:
            late.append(now - due)
            due += 1 / RATE
    return late, gaps


def without(gaps: Sequence[Gap], begin: float, end: float) -> float:
    """The seconds from `begin` to `end` that are in none of the gaps."""
    return end - begin - sum(max(0.0, min(end, came) - max(begin, due)) for due, came in gaps)


def main(words: Sequence[str]) -> None:
    """Measure until standard input ends, and print the result."""
    os.sched_setaffinity(0, map(int, words[0].split(",")))

    def wait(seconds: float) -> bool:
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    print(READY, flush=True)
    late, gaps = lateness(wait, time.monotonic)
    print(json.dumps((Spread.of(late or [0.0]), gaps)))


if __name__ == "__main__":
    main(sys.argv[1:])
