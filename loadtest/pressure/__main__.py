"""The benchmark under pressure: `make bench-pressure`, or `python -m loadtest.pressure`.

Path: here -> run.py, soak.py -> results.py, soak_result.py.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from hsdns.corefile.properties import parse_duration
from loadtest import bench
from loadtest.apiserver.objects import namespace_of
from loadtest.bench import Measured, Progress
from loadtest.dns import service_name
from loadtest.pressure import results, soak, soak_result
from loadtest.pressure.clients import BIG_ENDPOINTS, compile_tools
from loadtest.pressure.machine import avoid_pauses, raise_priority
from loadtest.pressure.rows import BY_KEY, ROWS
from loadtest.pressure.run import QUICK, Bench, Effort, measure_rows
from loadtest.process import BenchmarkError
from loadtest.programs import (
    COREDNS,
    NATIVE,
    PURE,
    TITLES,
    find_programs,
    hsdns_command,
)
from loadtest.watch.api_servers import FakeApiProcess
from tests.support.upstreams.certificate import make_certificate

SERVERS = (NATIVE, PURE, COREDNS)
ENDPOINTS = 10
_LEAST_SERVICES = 500  # 400 of them change in a soak


def measure(asked: argparse.Namespace, words: list[str]) -> Measured:
    """Run the benchmark or the soak."""
    progress = Progress(sys.stderr)
    command = shlex.split(asked.hsdns) if asked.hsdns else hsdns_command()
    found = find_programs(asked.servers, command)
    missing = [each for each in found.missing if not each.startswith("dnsperf")]  # not needed here
    for sentence in missing:
        progress.log(f"missing: {sentence}")
    if not found.programs:
        raise BenchmarkError("none of the servers is installed")
    cluster = (
        f"{asked.services:,} headless Services with {ENDPOINTS} endpoints each, "
        f"one with {BIG_ENDPOINTS:,}"
    )
    context = bench.context("make bench-pressure", words, found.programs, missing, cluster)
    with (
        tempfile.TemporaryDirectory(prefix="bench-pressure-") as name,
        FakeApiProcess(protobuf=True) as api,
    ):
        raise_priority(api.pid)
        api.create_up_to(asked.services, ENDPOINTS, progress)
        big = api.create(1, BIG_ENDPOINTS)
        tools = compile_tools(Path(name), service_name(namespace_of(big), f"web-{big}"))
        effort = QUICK if asked.quick else Effort()
        shared = Bench(api, tools, make_certificate(Path(name), "127.0.0.1"), progress, effort)
        avoid_pauses()
        if asked.soak is not None:
            soaked = [soak.run(shared, each, asked.soak, asked.only) for each in found.programs]
            return _soaked(soaked, context)
        rows = [row for row in ROWS if row.key in asked.only]
        outcomes = measure_rows(shared, rows, found.programs)
    verdicts = results.judge(outcomes, asked.only, asked.servers)
    data = {
        "context": context,
        "outcomes": [
            each._asdict() | {"figures": {name: each.figure(name) for name in results.FIGURES}}
            for each in outcomes
        ],
        "goals": [each.as_data() for each in verdicts],
    }
    return Measured(
        data,
        all(each.holds for each in verdicts),
        results.NAME,
        results.section(context, rows, outcomes, verdicts),
    )


def _soaked(soaked: list[soak_result.Soak], context: dict[str, str]) -> Measured:
    data = [each._asdict() | {"slope": each.slope, "faults": each.faults} for each in soaked]
    return Measured(
        {"context": context, "soak": data},
        not any(each.faults for each in soaked if each.server != COREDNS),
        soak_result.NAME,
        soak_result.section(context, soaked),
    )


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = bench.arguments(
        "make bench-pressure", "Press hsdns and CoreDNS, and measure what becomes of others."
    )
    add = parser.add_argument
    add("--only", type=bench.among(BY_KEY), default=list(BY_KEY), metavar="ROW,...",
        help=f"kinds of pressure: {', '.join(BY_KEY)}")  # fmt: skip
    add("--servers", type=bench.among(SERVERS), default=list(SERVERS), metavar="NAME,...",
        help=f"servers: {', '.join(f'{key} ({TITLES[key]})' for key in SERVERS)}")  # fmt: skip
    add("--services", type=bench.number(_LEAST_SERVICES, 100_000), default=10_000, metavar="N",
        help="Services in the cluster")  # fmt: skip
    add("--soak", type=duration, metavar="TIME",
        help="all kinds of pressure at once for so long, such as 30m or 60s")  # fmt: skip
    return parser


def duration(word: str) -> float:
    """Read a number of seconds, minutes or hours with its unit."""
    seconds = parse_duration(word)
    if seconds is None or seconds <= 0:
        raise argparse.ArgumentTypeError(f'"{word}" is no time; write a number with s, m or h: 30m')
    return seconds


if __name__ == "__main__":
    sys.exit(bench.run(arguments(), measure))
