"""The dnsperf method: dnsperf, on a separate core, sends queries as fast as it gets replies.

Path: run.py -> here -> dnsperf, an external program.
Rule 1: the figure is CPU time of the server per completed query, not queries per second: with one core for dnsperf,
        dnsperf is the bottleneck, and a faster server waits more often.
Rule 2: latencies are measured in a separate run at a rate that every server can handle, because dnsperf must print
        each query for them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.answering.cluster import Question
from loadtest.figures import percentile
from loadtest.process import BenchmarkError, Process, on_core

CLIENTS: Final = 20
UNDER_WAY: Final = 100
LATENCY_RATE: Final = 5000  # queries a second
_TIMEOUT = 1  # seconds until a query counts as lost
_GRACE = 30.0
_COUNTS = {
    "sent": re.compile(r"Queries sent:\s+(\d+)"),
    "completed": re.compile(r"Queries completed:\s+(\d+)"),
    "seconds": re.compile(r"Run time \(s\):\s+([\d.]+)"),
}
_ANSWERED = re.compile(r"^> (?!T )\S+ \S+ \S+ ([\d.]+)$", re.MULTILINE)


class Counted(NamedTuple):
    """The statistics that dnsperf prints at the end."""

    sent: int
    completed: int
    seconds: float


class Latency(NamedTuple):
    """Seconds from query to reply."""

    p50: float
    p99: float


def write_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write the input file of dnsperf."""
    path.write_text("".join(f"{name} {rrtype}\n" for name, rrtype in questions))


class Dnsperf:
    """The program and the core that it runs on (None: any)."""

    def __init__(self, program: str, core: int | None) -> None:
        self._program = program
        self._core = core

    def run(
        self,
        process: Process,
        port: int,
        questions: Path,
        seconds: float,
        *,
        edns: bool,
        tcp: bool,
    ) -> tuple[int, Counted]:
        """Send queries for some seconds; return the server's CPU time in nanoseconds and the statistics."""
        before = process.cpu_ns()
        text = self._call(port, questions, seconds, edns=edns, tcp=tcp)
        return process.cpu_ns() - before, counted(text)

    def latency(
        self, port: int, questions: Path, seconds: float, *, edns: bool, tcp: bool
    ) -> Latency | None:
        """Send queries at a steady rate; return None if none was answered."""
        text = self._call(
            port, questions, seconds, "-v", "-Q", str(LATENCY_RATE), edns=edns, tcp=tcp
        )
        values = latencies(text)
        return Latency(percentile(values, 0.5), percentile(values, 0.99)) if values else None

    def _call(
        self, port: int, questions: Path, seconds: float, *more: str, edns: bool, tcp: bool
    ) -> str:
        words = [self._program, "-s", "127.0.0.1", "-p", str(port), "-d", str(questions)]
        words += ["-l", str(max(1, round(seconds))), "-c", str(CLIENTS), "-q", str(UNDER_WAY)]
        words += ["-T", "1", "-t", str(_TIMEOUT), "-m", "tcp" if tcp else "udp", *more]
        if edns:
            words.append("-e")
        with on_core(self._core):
            try:
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=seconds + _GRACE, check=True
                )
            except subprocess.CalledProcessError as error:
                raise BenchmarkError(
                    f"dnsperf ended with status {error.returncode}: {error.stderr[-300:]}"
                ) from None
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BenchmarkError(f"dnsperf does not work: {error}") from None
        return done.stdout


def counted(text: str) -> Counted:
    """Read dnsperf's statistics; raise BenchmarkError if there are none."""
    found = {}
    for name, pattern in _COUNTS.items():
        match = pattern.search(text)
        if match is None:
            raise BenchmarkError(f'dnsperf does not say "{pattern.pattern}": {text[-300:]}')
        found[name] = match[1]
    return Counted(int(found["sent"]), int(found["completed"]), float(found["seconds"]))


def latencies(text: str) -> list[float]:
    """Read the seconds of each answered query from the output of dnsperf -v."""
    return [float(each) for each in _ANSWERED.findall(text)]
