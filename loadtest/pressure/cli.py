"""The command line of the benchmark: `make bench-pressure`, or `python -m loadtest.pressure`.

Path: __main__.py -> here -> run.py, soak.py -> report.py.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadtest import bench
from loadtest.apiserver.objects import namespace_of
from loadtest.bench import Progress
from loadtest.dns import service_name
from loadtest.pressure import report, soak, soak_result
from loadtest.pressure.clients import BIG_ENDPOINTS, compile_tools
from loadtest.pressure.goals import judge
from loadtest.pressure.priority import avoid_pauses, raise_priority
from loadtest.pressure.results import FIGURES
from loadtest.pressure.rows import BY_KEY, ROWS
from loadtest.pressure.run import QUICK, Bench, Effort, measure
from loadtest.process import BenchmarkError
from loadtest.programs import (
    COREDNS,
    NATIVE,
    PURE,
    TITLES,
    Program,
    find_programs,
    hsdns_command,
    make_certificate,
)
from loadtest.watch.fake_api_process import FakeApiProcess

SERVERS = (NATIVE, PURE, COREDNS)
ENDPOINTS = 10
_LEAST_SERVICES = 500  # 400 of them change in a soak
_UNITS = {"s": 1, "m": 60, "h": 3600}


def main(words: Sequence[str]) -> int:
    """Run the benchmark or the soak and write the requested outputs; return the exit status."""
    asked = _arguments(words)
    return bench.run("bench-pressure", lambda: _run(asked, words))


def _run(asked: argparse.Namespace, words: Sequence[str]) -> int:
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
        FakeApiProcess(ENDPOINTS, protobuf=True) as api,
    ):
        raise_priority(api.pid)
        api.create_up_to(asked.services, progress)
        big = api.create(BIG_ENDPOINTS)
        tools = compile_tools(Path(name), service_name(namespace_of(big), f"web-{big}"))
        effort = QUICK if asked.quick else Effort()
        shared = Bench(api, tools, make_certificate(Path(name)), progress, effort)
        avoid_pauses()
        part = _measure if asked.soak is None else _soak
        measured, holds, mark, section = part(asked, shared, found.programs, context)
    bench.write_json(asked.output, {"context": context, **measured})
    if asked.write_docs:
        bench.PAGE.write_text(bench.replaced(bench.PAGE.read_text(), mark, section))
    return 1 if asked.check and not holds else 0


Measured = tuple[
    dict[str, Any], bool, str, str
]  # data, whether the limits hold, and a section of the page with its mark


def _soak(
    asked: argparse.Namespace, shared: Bench, programs: Sequence[Program], context: dict[str, str]
) -> Measured:
    results = [soak.run(shared, program, asked.soak, asked.only) for program in programs]
    print(bench.plain(soak_result.rows(results)), end="")
    for result in results:
        for sentence in result.faults:
            print(f"{TITLES[result.server]}: {sentence}")
    holds = not any(each.faults for each in results if each.server != COREDNS)
    data = [each._asdict() | {"slope": each.slope, "faults": each.faults} for each in results]
    return {"soak": data}, holds, soak_result.NAME, soak_result.section(context, results)


def _measure(
    asked: argparse.Namespace, shared: Bench, programs: Sequence[Program], context: dict[str, str]
) -> Measured:
    rows = [row for row in ROWS if row.key in asked.only]
    outcomes = measure(shared, rows, programs)
    verdicts = judge(outcomes, asked.only, asked.servers)
    print(report.text(rows, outcomes, verdicts), end="")
    data = {
        "outcomes": [
            each._asdict() | {"figures": {name: each.figure(name) for name in FIGURES}}
            for each in outcomes
        ],
        "goals": [
            {**each.goal._asdict(), "server": each.server, "value": each.value, "holds": each.holds}
            for each in verdicts
        ],
    }
    section = report.section(context, rows, outcomes, verdicts)
    return data, all(each.holds for each in verdicts), report.NAME, section


def _arguments(words: Sequence[str]) -> argparse.Namespace:
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
    return parser.parse_args(words)


def duration(word: str) -> float:
    """Read a number of seconds, minutes or hours with its unit."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([smh])", word)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{word}" is no time; write a number with s, m or h: 30m')
    return float(int(match[1]) * _UNITS[match[2]])
