"""A process of the benchmark: its core, its log, its CPU time and memory from /proc, and its termination.

Path: the benchmarks start their programs here, and each runs by run_benchmark().
Rule 1: only processes that were started here are ended, by process ID.
Rule 2: a benchmark that SIGTERM ends, from `timeout` or CI, leaves no process behind: it ends as with Ctrl-C.
Rule 3: CPU time and memory include all threads of all descendants, so that no server hides them in a child process.
Source: proc(5): status VmRSS and VmHWM; Documentation/scheduler/sched-stats.rst.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

_GRACE = 10.0  # seconds from SIGTERM to SIGKILL
_INTERRUPTED = 130  # exit status
_STOP_TIMEOUT = 5.0  # seconds
_STOP_PAUSE = 0.0005


class BenchmarkError(RuntimeError):
    """The benchmark cannot continue; the message is for the user."""


def run_benchmark(prog: str, main: Callable[[], int]) -> int:
    """Run a benchmark, and return its exit status: that of `main`, 2 if it cannot run.

    SIGTERM and Ctrl-C end what it has started, and then itself.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main()
    except (BenchmarkError, OSError) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; what was started has been ended", file=sys.stderr)
        return _INTERRUPTED


def two_cores() -> tuple[int, int] | None:
    """The first two cores that this process may use, for a server and for what asks it; None with one alone."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else None


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


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep the processors busy with so many loops."""
    loops = [subprocess.Popen(("sh", "-c", "while :; do :; done")) for _ in range(count)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


class Opened:
    """A context manager whose open() puts what is to be closed into `_stack`; if it fails, that is closed at once."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def open(self) -> None:
        """Open it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with self._stack:
            self.open()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class InThread:
    """A context manager whose run() goes on in a thread, until `_over` is set at the end."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """Go on until it is over."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


class Memory(NamedTuple):
    """Resident memory in octets: current and maximum."""

    now: int
    peak: int


class Process:
    """A started program, perhaps on one core; a context manager that ends it."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        folder: Path,
        *,
        cwd: Path | None = None,
        environ: Mapping[str, str] | None = None,
        core: int | None = None,
    ) -> None:
        self.name = name
        self._stopped: list[int] = []
        self._log = folder / f"{name}.log"
        env = None if environ is None else {**os.environ, **environ}
        try:
            with self._log.open("wb") as log, on_core(core):
                self._popen = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd, env=env, start_new_session=True
                )  # fmt: skip
        except OSError as error:
            raise BenchmarkError(f"{name}: cannot start {words[0]}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._popen.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def end(self) -> None:
        """Terminate the process, wait, and kill it if it does not end; one that was stopped continues first."""
        self.resume()
        if self._popen.poll() is None:
            self._popen.terminate()
            try:
                self._popen.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._popen.send_signal(signal.SIGKILL)
                self._popen.wait()

    def wait(self, seconds: float) -> int:
        """Wait until it ends by itself; return its status; raise BenchmarkError."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"{self.name} does not end:\n{self.printed()}") from None

    def kill(self) -> None:
        """Kill the process, as the kernel does when there is no memory, and wait."""
        self._popen.kill()
        self._popen.wait()

    def check(self) -> None:
        """Raise BenchmarkError, with its last output, if the process has ended by itself."""
        status = self._popen.poll()
        if status is not None:
            raise BenchmarkError(f"{self.name} ended with status {status}:\n{self.printed()}")

    def wait_until(
        self, is_reached: Callable[[], object], seconds: float, what: str, pause: float = 0.05
    ) -> None:
        """Wait until something is reached, which may raise OSError before.

        Raises BenchmarkError if the process ends before, or after some seconds.
        """
        deadline = time.monotonic() + seconds
        while True:
            with suppress(OSError):
                if is_reached():
                    return
            self.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name} {what} after {seconds:.0f} s:\n{self.printed()}")
            time.sleep(pause)

    def stop(self) -> None:
        """Stop it, and wait until none of its threads runs."""
        self.check()
        self._stopped = self.pids()
        for pid in self._stopped:
            os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + _STOP_TIMEOUT
        while not all(state in "TZX" for pid in self._stopped for state in _states(pid)):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.name} does not stop")
            time.sleep(_STOP_PAUSE)

    def resume(self) -> None:
        """Continue it if it was stopped."""
        for pid in self._stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped = []

    def printed(self, lines: int = 15) -> str:
        """The last lines of its log."""
        text = self._log.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def log_lines(self) -> int:
        """The number of lines of its log."""
        return self._log.read_bytes().count(b"\n")

    def cpu(self) -> float:
        """As cpu_ns(), in seconds."""
        return self.cpu_ns() / 1e9

    def cpu_ns(self) -> int:
        """CPU time in nanoseconds since the start, without children that have ended; raise BenchmarkError if it has."""
        self.check()
        return sum(self.threads_ns().values())

    def threads_ns(self) -> dict[str, int]:
        """As cpu_ns(), of each thread."""
        self.check()
        return {thread: spent for pid in self.pids() for thread, spent in _threads_ns(pid).items()}

    def memory(self) -> Memory:
        """Resident memory of the process and its descendants; raise BenchmarkError if the process has ended."""
        self.check()
        found = [_memory(pid) for pid in self.pids()]
        return Memory(sum(one.now for one in found), sum(one.peak for one in found))

    def pids(self) -> list[int]:
        """The process and all its descendants."""
        found = [self._popen.pid]
        for parent in found:
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                try:
                    found.extend(int(child) for child in children.read_text().split())
                except OSError:  # ended meanwhile
                    continue
        return found


def _memory(pid: int) -> Memory:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Memory(0, 0)
    return memory_of(status)


def memory_of(status: str) -> Memory:
    """Read resident memory from the text of /proc/PID/status; 0 for a process that has ended."""
    values = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Vm"))
    now, peak = (int(values.get(name, "0 kB").split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return Memory(now, peak)


def _threads_ns(pid: int) -> dict[str, int]:
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found[task.name] = schedstat_ns((task / "schedstat").read_text())
        except FileNotFoundError:
            if task.is_dir():  # a kernel without it
                raise
        except OSError:  # ended meanwhile
            continue
    return found


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
