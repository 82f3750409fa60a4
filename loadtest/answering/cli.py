"""The command line of the benchmark: `make bench`, or `python -m loadtest.answering`.

Path: __main__.py -> here -> run.py -> report.py, ../summary.py.
Exit status: 0; 1 with --check if a limit is exceeded; 2 if the benchmark cannot run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from loadtest import summary
from loadtest.answering import report
from loadtest.answering.cluster import Cluster
from loadtest.answering.goals import Verdict, judge
from loadtest.answering.mixes import BY_KEY, DNSPERF, DRAIN, MIXES, Mix
from loadtest.answering.progress_bar import ProgressBar
from loadtest.answering.results import Results
from loadtest.answering.run import QUICK, Effort, Run
from loadtest.arguments import among
from loadtest.process import BenchmarkError
from loadtest.programs import (
    ROOT,
    TITLES,
    FoundPrograms,
    find_programs,
    hsdns_command,
    install,
)

PAGE = ROOT / "docs/performance.md"


def main(words: Sequence[str]) -> int:
    """Run the benchmark and write the requested outputs; return the exit status."""
    asked = _arguments(words)
    bar = ProgressBar(sys.stderr)
    try:
        return _measure(asked, bar, words)
    except BenchmarkError as error:
        bar.end()
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        bar.end()
        raise


def _measure(asked: argparse.Namespace, bar: ProgressBar, words: Sequence[str]) -> int:
    if not asked.no_install:
        install(bar.log)
    mixes = [mix for mix in MIXES if mix.key in asked.only]
    found = find_programs(
        asked.servers, shlex.split(asked.hsdns) if asked.hsdns else hsdns_command()
    )
    for sentence in found.missing:
        bar.log(f"missing: {sentence}")
    cores = _cores()
    if cores is None:
        bar.log("one CPU only: server and generator share it, and dnsperf's figures mean little")
    cluster = Cluster(asked.services, asked.endpoints)
    with tempfile.TemporaryDirectory(prefix="bench-answers-") as folder:
        run = Run(
            Path(folder),
            cluster,
            found.programs,
            mixes,
            cores,
            bar,
            dnsperf=None if DNSPERF not in asked.methods else found.dnsperf,
            wildcard=asked.wildcard,
        )
        if cores is not None:
            os.sched_setaffinity(0, {cores[1]})
        with run:
            results = run.measure(_effort(asked))
    for sentence in run.missing:
        bar.log(f"missing: {sentence}")
    verdicts = judge(results, asked.only, asked.servers)
    print(report.text(results, mixes, verdicts), end="")
    setting = _setting(found, [*found.missing, *run.missing], words, cluster)
    _write(asked, results, mixes, verdicts, setting)
    return 1 if asked.check and not all(verdict.holds for verdict in verdicts) else 0


def _effort(asked: argparse.Namespace) -> Effort:
    effort = QUICK if asked.quick else Effort()
    if asked.rounds is not None:
        effort = effort._replace(
            drain_rounds=asked.rounds, dnsperf_rounds=max(1, asked.rounds // 8)
        )
    if DRAIN not in asked.methods:
        effort = effort._replace(drain_rounds=0)
    return effort


def _cores() -> tuple[int, int] | None:
    """The cores of the server and of the load generator: the first two that this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else None


def _write(
    asked: argparse.Namespace,
    results: Results,
    mixes: Sequence[Mix],
    verdicts: Sequence[Verdict],
    setting: report.Setting,
) -> None:
    if asked.output is not None:
        written = {
            "setting": setting._asdict(),
            **results.to_json(),
            "goals": [
                {"what": each.goal.what, "ratio": each.ratio, "method": each.method,
                 "dnsperf_ratio": each.beside, "limit": each.goal.limit, "aim": each.goal.aim,
                 "holds": each.holds}
                for each in verdicts
            ],
        }  # fmt: skip
        asked.output.write_text(json.dumps(written, indent=1) + "\n")
    if asked.write_docs:
        section = report.section(results, mixes, verdicts, setting)
        summary.write(PAGE, report.replaced(PAGE.read_text(), section))


def _setting(
    found: FoundPrograms, missing: Sequence[str], words: Sequence[str], cluster: Cluster
) -> report.Setting:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    machine = (
        f"{os.cpu_count()} cores, {model}, {system}, Python {platform.python_version()}; "
        f"{cluster.services:,} headless Services with {cluster.endpoints} endpoints each"
    )
    arguments = f' BENCH_ARGS="{shlex.join(words)}"' if words else ""
    return report.Setting(
        f"make bench{arguments}",
        machine,
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        [(program.title, program.version) for program in found.programs],
        missing,
    )


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--quick", action="store_true", help="few rounds: to see whether it works, not for figures")
    add(
        "--rounds",
        type=_positive,
        metavar="N",
        help="rounds of drain; an eighth as many of dnsperf",
    )
    add("--only", type=among(BY_KEY), default=list(BY_KEY), metavar="MIX,...",
        help=f"mixes: {', '.join(BY_KEY)}")  # fmt: skip
    add("--servers", type=among(TITLES), default=list(TITLES), metavar="NAME,...",
        help=f"servers: {', '.join(TITLES)}")  # fmt: skip
    add("--methods", type=among((DRAIN, DNSPERF)), default=[DRAIN, DNSPERF], metavar="NAME,...",
        help=f"methods: {DRAIN}, {DNSPERF}")  # fmt: skip
    add(
        "--services",
        type=_positive,
        default=Cluster().services,
        metavar="N",
        help="Services in the cluster",
    )
    add(
        "--endpoints",
        type=_positive,
        default=Cluster().endpoints,
        metavar="N",
        help="endpoints of each",
    )
    add("--hsdns", metavar="COMMAND", help="how hsdns is started (default: beside this Python)")
    add("--wildcard", action="store_true",
        help="hsdns and CoreDNS listen on all addresses, as kubeadm has it, not on 127.0.0.1")  # fmt: skip
    add("--no-install", action="store_true", help="install nothing by apt-get")
    add("-o", "--output", type=Path, metavar="FILE", help="write all samples and figures as JSON")
    add(
        "--write-docs",
        action="store_true",
        help="write the section of docs/performance.md, the beginning of the page and its plot",
    )
    add("--check", action="store_true", help="end with status 1 where a limit is not kept")
    return parser.parse_args(words)


def _positive(word: str) -> int:
    value = int(word)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{word} is out of range, allowed is 1 and above")
    return value
