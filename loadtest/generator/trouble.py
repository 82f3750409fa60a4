"""Loads a server that loses nothing while the generator is stopped, or each CPU has other work; dnsperf beside it.

Path: __main__.py -> through_trouble() -> Knot, `hsdns load`, dnsperf -> trouble_told().
Rule 1: both generators have the same trouble: SIGSTOP to all of their processes, at a random time, or two busy loops on
        each CPU.  The server's socket has the system's buffer.
Rule 2: it holds if `hsdns load -fail-if loss>0.1%` does not fail: no loss is the server's.  Exit status 2, which
        says that this is not known, is right too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.answering.cluster import Cluster
from loadtest.answering.servers import RunSettings, Server
from loadtest.figures import Checked
from loadtest.generator.measure import SERVICES, questions_of
from loadtest.generators import HSDNS, counted, dnsperf_words, load_words, write_questions
from loadtest.process import BenchmarkError
from loadtest.programs import KNOT, find_programs, which

_STOP: Final = 0.3  # seconds
_HOGS: Final = 2  # on each CPU
_HOG: Final = "while True: pass"
_EXITS: Final = (0, 2)  # the limits hold; not known


class Situation(NamedTuple):
    """A rate in queries a second, and what happens meanwhile."""

    name: str
    rate: int
    is_stopped: bool = False
    has_hogs: bool = False


SITUATIONS: Final = (
    Situation("nothing else runs", 20_000),
    Situation("stopped for 300 ms", 10_000, is_stopped=True),
    Situation("two busy loops on each CPU", 20_000, has_hogs=True),
)


def through_trouble(folder: Path, seconds: float) -> list[Checked]:
    """Load Knot in each situation; raise BenchmarkError."""
    found = find_programs((KNOT,), HSDNS)
    perf = which("dnsperf")
    if not found.programs or perf is None:
        raise BenchmarkError(" ".join(found.missing) or "dnsperf is not installed")
    settings = RunSettings(folder, Cluster(SERVICES, 5), folder / "zone", None)
    settings.write_zone()
    names = write_questions(folder / "names", questions_of(settings.cluster))
    (program,) = found.programs
    checked = []
    with Server(settings, program, program.key, known=[]) as server:
        for each in SITUATIONS:
            words = load_words(server.port, names, each.rate, seconds, "-fail-if", "loss>0.1%")
            report, status = _through(each, words, seconds)
            perf_words = dnsperf_words(perf, server.port, names, seconds, "-Q", str(each.rate))
            counts = counted(_through(each, perf_words, seconds)[0])
            checked.append(trouble_told(each, report, status, counts.sent, counts.completed))
    return checked


def trouble_told(
    situation: Situation, report: str, status: int, sent: int, completed: int
) -> Checked:
    """A line about a situation: the report of `hsdns load` and its exit status, and the counts of dnsperf."""
    counts = json.loads(report)["servers"][0]["counts"]
    lost, unknown, due = counts["lost"] + counts["not_sent"], counts["unknown"], counts["due"]
    said = (
        f"{situation.name}, {situation.rate:,}/s: {lost / due:.2%} lost, {unknown / due:.2%} of all unknown, "
        f"exit status {status}; dnsperf {1 - completed / max(1, sent):.2%} lost"
    )
    return Checked(said, status in _EXITS)


def _through(situation: Situation, words: Sequence[str], seconds: float) -> tuple[str, int]:
    """Run a generator; return what it prints, and its exit status."""
    with ExitStack() as stack:
        if situation.has_hogs:
            stack.enter_context(_hogs())
        running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        if situation.is_stopped:
            time.sleep(seconds / 2 + random.uniform(0, seconds / 3))  # the trouble comes by chance
            os.killpg(running.pid, signal.SIGSTOP)
            time.sleep(_STOP)  # the trouble itself
            os.killpg(running.pid, signal.SIGCONT)
        return running.communicate()[0], running.returncode


@contextmanager
def _hogs() -> Iterator[None]:
    hogs = [subprocess.Popen((sys.executable, "-c", _HOG)) for _ in range(_HOGS * (os.cpu_count() or 1))]  # fmt: skip
    try:
        yield
    finally:
        for each in hogs:
            each.kill()
            each.wait()
