"""The command line of the benchmark: `make bench-pressure`, or `python -m loadtest.pressure`.

Path: __main__.py -> here -> run.py, soak.py -> report.py.
Exit status: 0; 1 with --check if a limit is exceeded; 2 if the benchmark cannot run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loadtest.answering.report import plain
from loadtest.apiserver.objects import namespace_of
from loadtest.arguments import among
from loadtest.dns import service_name
from loadtest.pauses import avoid_pauses
from loadtest.pressure import report, soak, soak_report
from loadtest.pressure.clients import BIG_ENDPOINTS, compile_tools
from loadtest.pressure.goals import judge
from loadtest.pressure.priority import raise_priority
from loadtest.pressure.results import as_json
from loadtest.pressure.rows import BY_KEY, ROWS
from loadtest.pressure.run import QUICK, Bench, Effort, measure
from loadtest.process import BenchmarkError
from loadtest.programs import (
    COREDNS,
    NATIVE,
    PURE,
    ROOT,
    TITLES,
    FoundPrograms,
    find_programs,
    hsdns_command,
    make_certificate,
)
from loadtest.progress import Progress
from loadtest.watch.fake_api_process import FakeApiProcess

PAGE = ROOT / "docs/performance.md"
SERVERS = (NATIVE, PURE, COREDNS)
ENDPOINTS = 10
_LEAST_SERVICES = 500  # 400 of them change in a soak
_UNITS = {"s": 1, "m": 60, "h": 3600}


def main(words: Sequence[str]) -> int:
    """Run the benchmark or the soak and write the requested outputs; return the exit status."""
    asked = _arguments(words)
    try:
        return _run(asked, words)
    except BenchmarkError as error:
        print(f"bench-pressure: {error}", file=sys.stderr)
        return 2


def _run(asked: argparse.Namespace, words: Sequence[str]) -> int:
    progress = Progress(sys.stderr)
    command = shlex.split(asked.hsdns) if asked.hsdns else hsdns_command()
    found = find_programs(asked.servers, command)
    for sentence in _missing(found):
        progress.log(f"missing: {sentence}")
    if not found.programs:
        raise BenchmarkError("none of the servers is installed")
    with (
        tempfile.TemporaryDirectory(prefix="bench-pressure-") as name,
        FakeApiProcess(ENDPOINTS, protobuf=True) as api,
    ):
        folder = Path(name)
        raise_priority(api.pid)
        api.create_up_to(asked.services, progress)
        big = api.create(BIG_ENDPOINTS)
        tools = compile_tools(folder, service_name(namespace_of(big), f"web-{big}"))
        effort = QUICK if asked.quick else Effort()
        bench = Bench(api, tools, make_certificate(folder), progress, effort)
        avoid_pauses()
        if asked.soak is not None:
            return _soak(asked, bench, found, words)
        return _measure(asked, bench, found, words)


def _soak(
    asked: argparse.Namespace, bench: Bench, found: FoundPrograms, words: Sequence[str]
) -> int:
    results = [soak.run(bench, program, asked.soak, asked.only) for program in found.programs]
    print(plain(soak_report.rows(results)), end="")
    for result in results:
        for sentence in result.faults:
            print(f"{TITLES[result.server]}: {sentence}")
    context = _context(found, words, asked.services)
    _write(asked, {"context": context, "soak": [each.to_json() for each in results]})
    if asked.write_docs:
        section = soak_report.section(context, results)
        marks = soak_report.BEGIN, soak_report.END
        PAGE.write_text(report.replaced(PAGE.read_text(), section, *marks))
    ours = [each for each in results if each.server != COREDNS]
    return 1 if asked.check and any(each.faults for each in ours) else 0


def _measure(
    asked: argparse.Namespace, bench: Bench, found: FoundPrograms, words: Sequence[str]
) -> int:
    rows = [row for row in ROWS if row.key in asked.only]
    outcomes = measure(bench, rows, found.programs)
    verdicts = judge(outcomes, asked.only, asked.servers)
    print(report.text(rows, outcomes, verdicts), end="")
    context = _context(found, words, asked.services)
    goals = [
        {**each.goal._asdict(), "server": each.server, "value": each.value, "holds": each.holds}
        for each in verdicts
    ]
    _write(asked, {"context": context, "outcomes": as_json(outcomes), "goals": goals})
    if asked.write_docs:
        section = report.section(context, rows, outcomes, verdicts)
        PAGE.write_text(report.replaced(PAGE.read_text(), section))
    return 1 if asked.check and not all(each.holds for each in verdicts) else 0


def _write(asked: argparse.Namespace, written: object) -> None:
    if asked.output is not None:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(json.dumps(written, indent=1) + "\n")


def _missing(found: FoundPrograms) -> list[str]:
    """The programs that are missing here; dnsperf is not needed."""
    return [each for each in found.missing if not each.startswith("dnsperf")]


def _context(found: FoundPrograms, words: Sequence[str], services: int) -> dict[str, str]:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    arguments = f' BENCH_ARGS="{shlex.join(words)}"' if words else ""
    context = {
        "command": f"`make bench-pressure{arguments}`",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}, {system}, "
        f"Python {platform.python_version()}; {services:,} headless Services with {ENDPOINTS} "
        f"endpoints each, one with {BIG_ENDPOINTS:,}",
    }
    context |= {program.title: program.version for program in found.programs}
    missing = _missing(found)
    return context | ({"missing": "; ".join(missing)} if missing else {})


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-pressure",
        description="Press hsdns and CoreDNS, and measure what becomes of others.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="few seconds for each: to see whether it works")
    add("--only", type=among(BY_KEY), default=list(BY_KEY), metavar="ROW,...",
        help=f"kinds of pressure: {', '.join(BY_KEY)}")  # fmt: skip
    add("--servers", type=among(SERVERS), default=list(SERVERS), metavar="NAME,...",
        help=f"servers: {', '.join(f'{key} ({TITLES[key]})' for key in SERVERS)}")  # fmt: skip
    add("--services", type=_services, default=10_000, metavar="N", help="Services in the cluster")
    add("--soak", type=duration, metavar="TIME",
        help="all kinds of pressure at once for so long, such as 30m or 60s")  # fmt: skip
    add("--hsdns", metavar="COMMAND", help="how hsdns is started (default: beside this Python)")
    add("-o", "--output", type=Path, metavar="FILE", help="write all measurements as JSON")
    add("--write-docs", action="store_true",
        help="write the section of docs/performance.md: of the rows, or of the soak")  # fmt: skip
    add("--check", action="store_true", help="end with status 1 where a limit is not kept")
    return parser.parse_args(words)


def duration(word: str) -> float:
    """Read a number of seconds, minutes or hours with its unit."""
    match = re.fullmatch(r"([1-9][0-9]{0,4})([smh])", word)
    if match is None:
        raise argparse.ArgumentTypeError(f'"{word}" is no time; write a number with s, m or h: 30m')
    return float(int(match[1]) * _UNITS[match[2]])


def _services(word: str) -> int:
    if not word.isascii() or not word.isdigit() or not _LEAST_SERVICES <= int(word) <= 100_000:
        raise argparse.ArgumentTypeError(f"{word} is not from {_LEAST_SERVICES} to 100000")
    return int(word)
