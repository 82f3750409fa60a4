"""The benchmark of answers: `make bench`, or `python -m loadtest.answering`.

Path: here -> run.py -> results.py.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

from loadtest import bench
from loadtest.answering import results
from loadtest.answering.cluster import Cluster
from loadtest.answering.mixes import BY_KEY, MIXES
from loadtest.answering.run import QUICK, Effort, Run
from loadtest.bench import Measured, Progress
from loadtest.process import two_cores
from loadtest.programs import TITLES, find_programs, hsdns_command


def measure(asked: argparse.Namespace, words: list[str]) -> Measured:
    """Measure what was selected."""
    progress = Progress(sys.stderr)
    mixes = [mix for mix in MIXES if mix.key in asked.only]
    command = shlex.split(asked.hsdns) if asked.hsdns else hsdns_command()
    found = find_programs(asked.servers, command)
    for sentence in found.missing:
        progress.log(f"missing: {sentence}")
    cores = two_cores()
    if cores is None:
        progress.log("one CPU only: server and generator share it; dnsperf's figures mean little")
    cluster = Cluster()
    with tempfile.TemporaryDirectory(prefix="bench-answers-") as name:
        run = Run(Path(name), cluster, found.programs, mixes, cores, progress, dnsperf=found.dnsperf)  # fmt: skip
        if cores is not None:
            os.sched_setaffinity(0, {cores[1]})
        with run:
            measured = run.measure(_effort(asked))
    for sentence in run.missing:
        progress.log(f"missing: {sentence}")
    verdicts = results.judge(measured, asked.only, asked.servers)
    shape = f"{cluster.services:,} headless Services with {cluster.endpoints} endpoints each"
    missing = [*found.missing, *run.missing]
    context = bench.context("make bench", words, found.programs, missing, shape)
    goals = [each.as_data() for each in verdicts]
    return Measured(
        {"context": context, **measured._asdict(), "goals": goals},
        all(each.holds for each in verdicts),
        results.NAME,
        results.section(measured, mixes, verdicts, context),
    )


def _effort(asked: argparse.Namespace) -> Effort:
    effort = QUICK if asked.quick else Effort()
    if asked.rounds is not None:
        effort = effort._replace(
            drain_rounds=asked.rounds, dnsperf_rounds=max(1, asked.rounds // 8)
        )
    return effort


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = bench.arguments(
        "make bench",
        "Compare the CPU time of an answer with other servers, and with the kernel's own cost.",
    )
    add = parser.add_argument
    add(
        "--rounds",
        type=bench.number(1, 1_000),
        metavar="N",
        help="of drain; an eighth as many of dnsperf",
    )
    add("--only", type=bench.among(BY_KEY), default=list(BY_KEY), metavar="MIX,...",
        help=f"mixes: {', '.join(BY_KEY)}")  # fmt: skip
    add("--servers", type=bench.among(TITLES), default=list(TITLES), metavar="NAME,...",
        help=f"servers: {', '.join(TITLES)}")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(bench.run(arguments(), measure))
