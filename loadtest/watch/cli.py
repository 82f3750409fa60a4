"""The command line of the benchmark.

Path: argv -> Plan -> plan.run -> report.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from loadtest.process import BenchmarkError
from loadtest.programs import ROOT, hsdns_and_coredns
from loadtest.progress import Progress
from loadtest.watch.goals import judge, table
from loadtest.watch.plan import PARTS, START, Plan, run
from loadtest.watch.report import as_json, rows, section, write_docs

PAGE = ROOT / "docs" / "performance.md"
MAX_SERVICES = 100_000


def main(words: Sequence[str]) -> int:
    """Run the benchmark and show the results; return the exit status."""
    options = parser().parse_args(words)
    progress = Progress(sys.stderr)
    command = "make bench-watch" + (
        f" BENCH_ARGS={shlex.quote(shlex.join(words))}" if words else ""
    )
    try:
        plan = plan_of(options)
        results = run(
            plan,
            hsdns_and_coredns(options.hsdns),
            os.environ.get("KUBEBUILDER_ASSETS") or None,
            command,
            progress,
        )
    except (BenchmarkError, OSError) as error:
        print(f"bench-watch: {error}", file=sys.stderr)
        return 1
    sizes = [0, *plan.sizes] if START in plan.parts else plan.sizes
    verdicts = judge(rows(results), plan.parts, sizes)
    goals = table(verdicts)
    print(section(results, goals))
    if options.output:
        Path(options.output[1]).write_text(as_json(results))
    if options.write_docs:
        try:
            write_docs(PAGE, results, goals)
        except BenchmarkError as error:
            print(f"bench-watch: {error}", file=sys.stderr)
            return 1
    return 1 if options.check and not all(each.holds for each in verdicts) else 0


def parser() -> argparse.ArgumentParser:
    """Create the command line parser."""
    made = argparse.ArgumentParser(
        prog="bench-watch",
        description="Compare hsdns with CoreDNS (HSDNS_PEER, else on PATH) as watchers of one API server.",
    )
    made.add_argument("--quick", action="store_true", help="small and short, for a look")
    made.add_argument("--parts", type=_parts, help=f"some of {','.join(PARTS)} (default all)")
    made.add_argument("--sizes", type=_sizes, help="numbers of Services (default 1000,10000)")
    made.add_argument("--endpoints", type=_count(1_000), help="endpoints of a Service (default 10)")
    made.add_argument("--rounds", type=_count(100), help="starts of each server (default 3)")
    made.add_argument("--hsdns", metavar="PROGRAM", help="hsdns program (default: beside python)")
    made.add_argument(
        "-o",
        dest="output",
        nargs=2,
        action=_Output,
        metavar=("FORMAT", "FILE"),
        help="write every measurement to a file; the format is json",
    )
    made.add_argument(
        "--check",
        action="store_true",
        help="end with status 1 where a limit is not kept, or could not be measured",
    )
    made.add_argument(
        "--write-docs",
        action="store_true",
        help=f"renew the table and the beginning of {PAGE.name}",
    )
    return made


def plan_of(options: argparse.Namespace) -> Plan:
    """Create the plan that the options describe; other options override --quick."""
    plan = Plan().quick() if options.quick else Plan()
    given = {name: getattr(options, name) for name in ("parts", "sizes", "endpoints", "rounds")}
    return plan._replace(**{name: value for name, value in given.items() if value is not None})


class _Output(argparse.Action):
    """`-o json FILE`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        assert isinstance(values, list)
        if values[0] != "json":
            parser.error(f"argument -o: {values[0]} is no format; the only one is json")
        namespace.output = values


def _parts(text: str) -> tuple[str, ...]:
    words = tuple(text.split(","))
    for word in words:
        if word not in PARTS:
            raise argparse.ArgumentTypeError(f"{word} is no part; choose from {', '.join(PARTS)}")
    return words


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_count(MAX_SERVICES)(word.replace("_", "")) for word in text.split(","))


def _count(most: int) -> Callable[[str], int]:
    """Create a parser of integers from 1 to a limit."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from 1 to {most}")
        return int(text)

    return read
