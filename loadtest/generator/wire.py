"""Compares the service times that `hsdns load` reports with those that tcpdump sees on loopback.

Path: __main__.py -> compare() -> Knot, tcpdump, `hsdns load` -> wire_told().
Rule 1: a query and its reply are those with the same port and ID, each of them first.
Rule 2: each percentile of WIRE_PERCENTS may differ by a share WITHIN; it is compared in whole microseconds.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from hsdns.load.captures.packets import read_capture
from hsdns.load.histogram import Histogram
from loadtest.answering.cluster import Cluster
from loadtest.answering.servers import RunSettings, Server
from loadtest.figures import Checked
from loadtest.generator.measure import COMPILED, PYTHON, SERVICES, questions_of
from loadtest.generators import HSDNS, load_words, run, write_questions
from loadtest.process import BenchmarkError, two_cores
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


def compare(folder: Path, generators: Sequence[str], seconds: float) -> list[Checked]:
    """Load Knot with some generators; raise BenchmarkError."""
    found = find_programs((KNOT,), HSDNS)
    if not found.programs:
        raise BenchmarkError(" ".join(found.missing))
    settings = RunSettings(folder, Cluster(SERVICES, 5), folder / "zone", (two_cores() or (None,))[0])  # fmt: skip
    settings.write_zone()
    names = write_questions(folder / "names", questions_of(settings.cluster))
    (program,) = found.programs
    with Server(settings, program, program.key, known=[]) as server:
        return [
            wire_told(each, over_the_wire(folder, server.port, names, each, seconds))
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
