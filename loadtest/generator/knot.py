"""Loads Knot, which loses nothing: with tcpdump beside it, and while the generator is in trouble.

Service times that `hsdns load` reports, and those that tcpdump sees on loopback:
Path: __main__.py -> compare() -> Knot, tcpdump, `hsdns load` -> wire_told().
Rule 1: a query and its reply are those with the same port and ID, each of them first.
Rule 2: each percentile of WIRE_PERCENTS may differ by a share WITHIN; it is compared in whole microseconds.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from hsdns.load.captures.packets import read_capture
from hsdns.load.histogram import Histogram
from loadtest.answering.cluster import Cluster
from loadtest.answering.servers import RunSettings, Server
from loadtest.figures import Checked
from loadtest.generator.measure import COMPILED, PYTHON, SERVICES, questions_of
from loadtest.generators import HSDNS, counted, dnsperf_words, load_words, run, write_questions
from loadtest.process import BenchmarkError, busy, two_cores
from loadtest.programs import KNOT, find_programs, which

WIRE_PERCENTS: Final = (50.0, 90.0, 99.0)
WIRE_WITHIN: Final = 0.05
WIRE_RATES: Final = {COMPILED: 10_000, PYTHON: 2_000}
_BEGUN: Final = 1.5  # seconds until tcpdump has begun
_LENGTH: Final = "96"  # octets of a packet
_ETHERNET, _ID = 14, 8  # octets before the IP header, and of the UDP header


class Seen(NamedTuple):
    """Percentiles of WIRE_PERCENTS in microseconds, and how many queries they are of."""

    told: list[int | None]
    wire: list[int | None]
    queries: int

    @property
    def agrees(self) -> bool:
        """Whether all percentiles agree."""
        pairs = zip(self.told, self.wire, strict=True)
        return all(
            mine is not None and theirs is not None and abs(mine - theirs) <= max(1, WIRE_WITHIN * theirs)
            for mine, theirs in pairs
        )  # fmt: skip


@contextmanager
def knot(folder: Path, core: int | None = None) -> Iterator[tuple[int, Path]]:
    """Serve the names of a cluster with Knot; yield its port and a file of questions; raise BenchmarkError."""
    found = find_programs((KNOT,), HSDNS)
    if not found.programs:
        raise BenchmarkError(" ".join(found.missing))
    settings = RunSettings(folder, Cluster(SERVICES, 5), folder / "zone", core)
    settings.write_zone()
    names = write_questions(folder / "names", questions_of(settings.cluster))
    (program,) = found.programs
    with Server(settings, program, program.key) as server:
        yield server.port, names


def compare(folder: Path, generators: Sequence[str], seconds: float) -> list[Checked]:
    """Load Knot with some generators; raise BenchmarkError."""
    with knot(folder, (two_cores() or (None,))[0]) as (port, names):
        return [
            wire_told(each, over_the_wire(folder, port, names, each, seconds))
            for each in generators
        ]


def over_the_wire(folder: Path, port: int, names: Path, generator: str, seconds: float) -> Seen:
    """Load a server while tcpdump looks; raise BenchmarkError."""
    program = which("tcpdump")
    if program is None or os.geteuid():
        raise BenchmarkError("tcpdump is not installed, or this is not root")
    capture = folder / "capture"
    looks = (program, "-i", "lo", "-B", "65536", "-s", _LENGTH, "--time-stamp-precision", "nano")
    what = ("-w", str(capture), "udp", "port", str(port))
    looking = subprocess.Popen((*looks, *what), stderr=subprocess.DEVNULL)
    try:
        time.sleep(_BEGUN)
        environ = {"HSDNS_NO_EXTENSIONS": "1" if generator == PYTHON else ""}
        words = load_words(port, names, WIRE_RATES[generator], seconds)
        report = json.loads(run(words, seconds, environ=environ).printed)["servers"][0]
        time.sleep(_BEGUN)
    finally:
        looking.terminate()
        looking.wait()
    told = Histogram()
    for second in report["per_second"]:
        told.merge(Histogram(tuple(each) for each in second["service_slots"]))
    with capture.open("rb") as file:
        wire = service_times(file, port)
    return Seen(told.percentiles(WIRE_PERCENTS), wire.percentiles(WIRE_PERCENTS), wire.total)


def service_times(capture: IO[bytes], port: int) -> Histogram:
    """The times between queries to a port and their replies, in microseconds, in a capture of loopback over IPv4."""
    found, asked = Histogram(), dict[tuple[int, int], int]()
    for _, now, _, packet, _ in read_capture(capture):
        udp = _ETHERNET + (packet[_ETHERNET] & 15) * 4
        source, target = struct.unpack_from(">HH", packet, udp)
        (query_id,) = struct.unpack_from(">H", packet, udp + _ID)
        if target == port:
            asked.setdefault((source, query_id), now)
        elif (target, query_id) in asked:
            found.record((now - asked.pop((target, query_id))) // 1000)
    return found


def wire_told(generator: str, seen: Seen) -> Checked:
    """A line about the comparison."""
    told = ", ".join(
        f"p{percent:g} {mine} ({theirs})"
        for percent, mine, theirs in zip(WIRE_PERCENTS, seen.told, seen.wire, strict=True)
    )
    said = f"{generator}: {told} µs told (tcpdump), of {seen.queries:,} queries, within {WIRE_WITHIN:.0%}"
    return Checked(said, seen.agrees)


# The generator in trouble, and dnsperf beside it: through_trouble() -> trouble_told().
#
# Rule 1: both generators have the same trouble: SIGSTOP to all of their processes, at a random time, or two busy loops
#         on each CPU.  The server's socket has the system's buffer.
# Rule 2: it holds if `hsdns load -fail-if loss>0.1%` does not fail: no loss is the server's.  Exit status 2, which
#         says that this is not known, is right too.

_STOP: Final = 0.3  # seconds
_HOGS: Final = 2  # on each CPU
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
    perf = which("dnsperf")
    if perf is None:
        raise BenchmarkError("dnsperf is not installed")
    checked = []
    with knot(folder) as (port, names):
        for each in SITUATIONS:
            words = load_words(port, names, each.rate, seconds, "-fail-if", "loss>0.1%")
            report, status = _through(each, words, seconds)
            perf_words = dnsperf_words(perf, port, names, seconds, "-Q", str(each.rate))
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
            stack.enter_context(busy(_HOGS * (os.cpu_count() or 1)))
        running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        if situation.is_stopped:
            time.sleep(seconds / 2 + random.uniform(0, seconds / 3))  # the trouble comes by chance
            os.killpg(running.pid, signal.SIGSTOP)
            time.sleep(_STOP)  # the trouble itself
            os.killpg(running.pid, signal.SIGCONT)
        return running.communicate()[0], running.returncode
