"""What the command lines of benchmarks share: arguments, what a reader must know of a run, tables, and what is written.

Path: the __main__.py of a benchmark -> run() -> summary.py; its report makes rows, which are tables here.
Rule 1: a table has the same cells on a terminal and on a page; only the separators differ.
Rule 2: only the part of docs/contributing/benchmarks.md between two marks is written.
Rule 3: the exit status is 0; with --check 1 if a limit is exceeded; 2 if the benchmark cannot run.
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
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from loadtest import summary
from loadtest.process import run_benchmark
from loadtest.programs import Program
from loadtest.summary import PAGE, TABLES, replaced

Rows = list[list[str]]
_EVERY: Final = 2.0  # seconds between two lines about the same count


class Progress:
    """Progress messages with the seconds since the start; `clock` gives seconds."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._start = clock()
        self._logged = self._start
        self._total = self._done = self._began = 0.0

    def log(self, sentence: str) -> None:
        """Write a line."""
        self._logged = self._clock()
        print(f"[{self._logged - self._start:7.1f} s] {sentence}", file=self._out, flush=True)

    def count(self, what: str, done: int, total: int) -> None:
        """Write the progress of a long step, at most every two seconds."""
        if self._clock() - self._logged >= _EVERY:
            self.log(f"{what}: {done:,} of {total:,}")

    def begin(self, total: float) -> None:
        """Begin weighted steps, up to a total."""
        self._total, self._done, self._began = max(total, 1e-9), 0.0, self._clock()

    def step(self, what: str, weight: float = 1.0) -> None:
        """Write the step that begins now, with the remaining time, at most every two seconds."""
        now, share = self._clock(), self._done / self._total
        if now - self._logged >= _EVERY:
            left = f", {(now - self._began) * (1 / share - 1):.0f} s left" if share > 0.02 else ""
            self.log(f"{share:4.0%}{left}  {what}")
        self._done += weight

    def pause(self, seconds: float, why: str) -> None:
        """Write the reason, and wait."""
        if seconds >= _EVERY:
            self.log(f"{why}: {seconds:.0f} s")
        time.sleep(max(0.0, seconds))


def among(known: Iterable[str]) -> Callable[[str], list[str]]:
    """An argument: one or more of some words, with commas between them."""
    names = list(known)

    def read(text: str) -> list[str]:
        chosen = [word.strip() for word in text.split(",") if word.strip()]
        unknown = [word for word in chosen if word not in names]
        if unknown or not chosen:
            wrong = f"{unknown[0]} is not known; " if unknown else ""
            raise argparse.ArgumentTypeError(f"{wrong}write one or more of {', '.join(names)}")
        return chosen

    return read


def number(least: int, most: int) -> Callable[[str], int]:
    """An argument: an integer within limits."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least} to {most}")
        return int(text)

    return read


def arguments(prog: str, description: str) -> argparse.ArgumentParser:
    """A parser with the arguments that all have."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    add = parser.add_argument
    add("--quick", action="store_true", help="short, to see whether it works: not for figures")
    add("--hsdns", metavar="COMMAND", help="how hsdns is started (default: beside this Python)")
    add("-o", "--output", type=Path, metavar="FILE", help="write all measurements as JSON")
    add("--write-docs", action="store_true", help=f"write the section of docs/{PAGE.name}")
    add("--check", action="store_true", help="end with status 1 where a limit is not kept")
    return parser


class Measured(NamedTuple):
    """What a benchmark has found: for -o, whether the limits hold, and for the terminal and the page with its mark."""

    data: Any
    holds: bool
    mark: str
    section: str


def run(
    parser: argparse.ArgumentParser, measure: Callable[[argparse.Namespace, list[str]], Measured]
) -> int:
    """Run a benchmark and write the requested outputs; return the exit status."""
    words = sys.argv[1:]
    asked = parser.parse_args(words)

    def main() -> int:
        found = measure(asked, words)
        print(found.section)
        if asked.output is not None:
            asked.output.parent.mkdir(parents=True, exist_ok=True)
            asked.output.write_text(json.dumps(as_data(found.data), indent=1) + "\n")
        if asked.write_docs:
            tables = replaced(TABLES.read_text(), found.mark, found.section)
            summary.write(PAGE.parent, PAGE.read_text(), tables)
        return 1 if asked.check and not found.holds else 0

    return run_benchmark(parser.prog.removeprefix("make "), main)


def context(
    prog: str,
    words: Sequence[str],
    programs: Iterable[Program],
    missing: Collection[str],
    cluster: str,
) -> dict[str, str]:
    """What a reader needs to judge the figures: command, date, machine, versions, and what is missing."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    given = f' BENCH_ARGS="{shlex.join(words)}"' if words else ""
    return {
        "command": f"`{prog}{given}`",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}, {memory:.0f} GiB, "
        f"{system}, Python {platform.python_version()}; {cluster}",
        **{program.title: program.version for program in programs},
        **({"missing": "; ".join(missing)} if missing else {}),
    }


def listed(found: Mapping[str, str]) -> str:
    """A context as a list of the page."""
    return "\n".join(f"- {what}: {value}" for what, value in found.items())


def markdown(rows: Rows, left: Collection[int] | None = None) -> str:
    """Format a table for a terminal and the page; `left` are the left-aligned columns: the first and the last one."""
    left = (0, len(rows[0]) - 1) if left is None else left
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    rule = [
        "-" * max(3, width) if column in left else "-" * max(3, width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))


def as_data(value: Any) -> Any:
    """Measurements as JSON data: named tuples become objects."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: as_data(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(each) for each in value]
    return value
