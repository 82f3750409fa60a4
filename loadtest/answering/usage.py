"""CPU time of a process and its descendants in nanoseconds, and stopping and continuing them.

Path: servers.py, drain.py, dnsperf.py -> here -> loadtest.watch.process.
Rule 1: all threads of all descendants count, so that no server hides CPU time in a child process.
Rule 2: /proc/PID/task/TID/schedstat counts nanoseconds; without it, /proc/PID/stat counts ticks.
Source: Documentation/scheduler/sched-stats.rst; proc(5).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadtest.process import BenchmarkError, Process, cpu_ticks_of, family

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_TIMEOUT = 5.0  # seconds
_PAUSE = 0.0005


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Run the processes that are started in this context on one core; None: on any."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class MeasuredProcess(Process):
    """A process on one core whose CPU time is read in nanoseconds; a context manager that ends it."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        folder: Path,
        core: int | None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        with on_core(core):
            super().__init__(name, words, folder, environ=environ, cwd=cwd)
        self._stopped: list[int] = []

    def end(self) -> None:
        """Continue and end it."""
        self.resume()
        super().end()

    def cpu_ns(self) -> int:
        """CPU time in nanoseconds since the start; raise BenchmarkError if the process has ended."""
        self.check()
        return sum(_cpu_ns(pid) for pid in self.pids())

    def pids(self) -> list[int]:
        """The process and all its descendants."""
        return family(self._popen.pid)

    def stop(self) -> None:
        """Stop it, and wait until none of its threads runs."""
        self.check()
        self._stopped = self.pids()
        for pid in self._stopped:
            os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + _TIMEOUT
        while not all(state in "TZX" for pid in self._stopped for state in _states(pid)):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name} does not stop")
            time.sleep(_PAUSE)

    def resume(self) -> None:
        """Continue it if it was stopped."""
        for pid in self._stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
        self._stopped = []


def _cpu_ns(pid: int) -> int:
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            total += schedstat_ns((task / "schedstat").read_text())
        except FileNotFoundError:
            if task.is_dir():  # a kernel without it
                return _stat_ns(pid)
        except OSError:  # ended meanwhile
            continue
    return total


def _stat_ns(pid: int) -> int:
    try:
        return cpu_ticks_of(Path(f"/proc/{pid}/stat").read_text()) * _TICK_NS
    except OSError:
        return 0


def schedstat_ns(text: str) -> int:
    """Read the time on a CPU from the text of a schedstat file."""
    return int(text.split()[0])


def _states(pid: int) -> list[str]:
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(stat.read_text().rpartition(")")[2].split()[0])
        except OSError:
            continue
    return states
