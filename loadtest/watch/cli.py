"""The command line of the benchmark: `make bench-watch`, or `python -m loadtest.watch`.

Path: __main__.py -> Plan -> plan.run -> report.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from loadtest import bench, summary
from loadtest.bench import Progress
from loadtest.programs import hsdns_and_coredns
from loadtest.watch.goals import judge, table
from loadtest.watch.plan import PARTS, START, Plan, run
from loadtest.watch.report import NAME, rows, section

MAX_SERVICES = 100_000


def main(words: Sequence[str]) -> int:
    """Run the benchmark and show the results; return the exit status."""
    options = parser().parse_args(words)
    return bench.run("bench-watch", lambda: _measure(options, words))


def _measure(options: argparse.Namespace, words: Sequence[str]) -> int:
    plan, programs = plan_of(options), hsdns_and_coredns(options.hsdns)
    cluster = f"{plan.endpoints} endpoints of each Service"
    context = bench.context("make bench-watch", words, programs, (), cluster)
    assets = os.environ.get("KUBEBUILDER_ASSETS") or None
    results = run(plan, programs, assets, context, Progress(sys.stderr))
    sizes = [0, *plan.sizes] if START in plan.parts else plan.sizes
    verdicts = judge(rows(results.figures), plan.parts, sizes)
    written = section(results, table(verdicts))
    print(written)
    bench.write_json(options.output, results)
    if options.write_docs:
        summary.write(bench.PAGE, bench.replaced(bench.PAGE.read_text(), NAME, written))
    return 1 if options.check and not all(each.holds for each in verdicts) else 0


def parser() -> argparse.ArgumentParser:
    """Create the command line parser."""
    made = bench.arguments(
        "make bench-watch",
        "Compare hsdns with CoreDNS (HSDNS_PEER, else on PATH) as watchers of one API server.",
    )
    add = made.add_argument
    add("--parts", type=bench.among(PARTS), help=f"some of {','.join(PARTS)} (default all)")
    add("--sizes", type=_sizes, help="numbers of Services (default 1000,10000)")
    add("--endpoints", type=bench.number(1, 1_000), help="endpoints of a Service (default 10)")
    add("--rounds", type=bench.number(1, 100), help="starts of each server (default 3)")
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """Create the plan that the options describe; other options override --quick."""
    plan = Plan().quick() if options.quick else Plan()
    given = {name: getattr(options, name) for name in ("parts", "sizes", "endpoints", "rounds")}
    return plan._replace(**{name: value for name, value in given.items() if value is not None})


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(bench.number(1, MAX_SERVICES), text.replace("_", "").split(",")))
