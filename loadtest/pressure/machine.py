"""The machine under the servers: its own delays, the priority of measuring processes, and how servers are started.

    python -m loadtest.pressure.machine lateness CORES
    python -m loadtest.pressure.machine launch CORES DESCRIPTORS OUTPUT WORD...

Path: run.py, soak.py -> Control -> `lateness`, on the server's cores with its priority -> READY, a line of JSON.
      judge.py, run.py (threads), clients.py, __main__.py (processes), apiserver/__main__.py -> priorities, pauses.
      server.py -> `launch` -> the program takes its place.
Rule 1: `lateness` sets a timer RATE times a second, like the events, and records how late each one was.  Timers that
        expire while it waits for a core are late too, and count: no figure of a server on these cores can be better.
        A time of LONG or more for which it was late is kept: a server on these cores could do nothing in it, either.
        It ends when its standard input does, and so with the benchmark.
Rule 2: if two cores are fully used, a client that waits for a CPU would count its own wait as the server's.  It has
        priority, if the system allows it.  Linux divides cores between sessions first, so a process with a lower
        priority than those of other sessions has a session of its own, whose priority is lowered.
Rule 3: a full collection visits all objects and blocks the interpreter meanwhile: 210 ms in an API server of 10,000
        Services, which a soak would count as a delay of the server under test.  In a process whose clock times others,
        objects that exist now are exempted, and of later ones only the youngest generations are collected.
Rule 4: CORES: numbers with commas, or `any`.  DESCRIPTORS: SOFT:HARD, or `same`, for open files.  OUTPUT: `same`, or
        `unread` for a pipe whose other end stays open and is never read.
Source: proc_stat(5), the first line; sched(7), autogroup; setpriority(2), which on Linux applies to a single thread.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from loadtest.figures import Spread
from loadtest.process import BenchmarkError
from loadtest.programs import ROOT

YOUNG: Final = (2_000, 5)  # new objects, collections of the youngest generation
_NEVER: Final = 1 << 30


def avoid_pauses() -> None:
    """Exempt all existing objects, and run no full collection from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG, _NEVER)


NICE: Final = -10
LOW: Final = 15


def raise_priority(pid: int | None = None) -> None:
    """Raise the priority of a process with one thread, or of this thread; without the permission, do nothing."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id() if pid is None else pid, NICE)


def lower_priority(pid: int) -> None:
    """Let the leader of a session run when no process of another session wants its core."""
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, LOW)
    with contextlib.suppress(OSError):  # Linux may be built without
        Path(f"/proc/{pid}/autogroup").write_text(str(LOW))


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
            (sys.executable, "-m", "loadtest.pressure.machine", "lateness", self._cores),
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


def note_lateness(cores: str) -> None:
    """Measure until standard input ends, and print the result."""
    os.sched_setaffinity(0, map(int, cores.split(",")))

    def wait(seconds: float) -> bool:
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    print(READY, flush=True)
    late, gaps = lateness(wait, time.monotonic)
    print(json.dumps((Spread.of(late or [0.0]), gaps)))


def launch(cores: str, descriptors: str, output: str, *program: str) -> None:
    """Replace this process by a program."""
    if cores != "any":
        os.sched_setaffinity(0, map(int, cores.split(",")))
    if descriptors != "same":
        soft, hard = map(int, descriptors.split(":"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if output == "unread":
        reader, writer = os.pipe()
        os.set_inheritable(reader, True)
        for number in (1, 2):
            os.dup2(writer, number)
        os.close(writer)
    os.execvp(program[0], program)


if __name__ == "__main__":
    _, _command, *_words = sys.argv
    note_lateness(*_words) if _command == "lateness" else launch(*_words)
