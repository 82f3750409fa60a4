"""What imports cost hsdns: before the watches are open, and in all, for kubeadm's Corefile.

Path: plan.py -> here -> one interpreter for each figure.
Rule 1: a figure is the CPU time of an interpreter that imports, less that of one that imports nothing; medians.
Rule 2: bytecode was compiled by a run before the measured ones.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from loadtest.bench import Progress
from loadtest.generators import run
from loadtest.programs import HSDNS, Program
from loadtest.server import Ports
from loadtest.watch.report import MS, Figure, figures

ROUNDS: Final = 9
BEFORE: Final = (
    "hsdns.cli.coredns",
    "hsdns.cli.launch",
    "hsdns.server.watch_thread",
    "hsdns.sources.ahead",
)
_SERVER: Final = ("hsdns.server.lifecycle", "hsdns.server.lifecycle", "hsdns.server.transport.udp")
_DIRECTIVE: Final = re.compile(r"^    (\w+)", re.MULTILINE)
_SHOWN: Final = 6  # packages
_SECONDS: Final = 60.0  # for an interpreter


def measure(programs: Sequence[Program], progress: Progress) -> list[Figure]:
    """Measure hsdns, if it is among the programs."""
    ours = [program for program in programs if program.name == HSDNS]
    return _measure(_interpreter(ours[0]), progress) if ours else []


def _measure(python: str, progress: Progress) -> list[Figure]:
    everything = (*BEFORE, *_SERVER, *(f"hsdns.plugins.{name}" for name in directives()))
    codes = [
        f"import {', '.join(names)}" if names else "pass" for names in ((), BEFORE, everything)
    ]
    times: list[list[float]] = [[] for _ in codes]
    for number in range(ROUNDS + 1):
        for code, measured in zip(codes, times, strict=True):
            seconds = run([python, "-c", code], _SECONDS).cpu
            if number:
                measured.append(seconds)
    alone, before, full = (median(each) for each in times)
    for line in _slowest(python, codes[2]):
        progress.log(f"imports: {line}")
    return figures(
        "imports",
        HSDNS,
        ("an interpreter alone, CPU ms", alone * MS, 0),
        ("before the watches are open, CPU ms", (before - alone) * MS, 0),
        ("all for kubeadm's Corefile, CPU ms", (full - alone) * MS, 0),
        ("modules before the watches are open", _modules(python, codes[1]), 0),
        ("modules in all", _modules(python, codes[2]), 0),
    )


def directives() -> list[str]:
    """The directives of the benchmark's Corefile."""
    return sorted(
        {found for found in _DIRECTIVE.findall(Ports(*range(7)).corefile("")) if found != "bind"}
    )


def _interpreter(program: Program) -> str:
    beside = Path(program.words[0]).resolve().with_name("python")
    return str(beside) if beside.is_file() else sys.executable


def _modules(python: str, code: str) -> int:
    return int(run([python, "-c", f"{code}\nimport sys\nprint(len(sys.modules))"], _SECONDS).printed)  # fmt: skip


def _slowest(python: str, code: str) -> list[str]:
    """The packages that take most of the time, by `-X importtime`: the slowest first."""
    words = [python, "-X", "importtime", "-c", code]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    spent: dict[str, int] = {}
    for line in printed.splitlines():
        fields = line.removeprefix("import time:").split("|")
        if len(fields) == 3 and fields[0].strip().isdigit():
            package = fields[2].strip().partition(".")[0]
            spent[package] = spent.get(package, 0) + int(fields[0])
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return [f"{package} {microseconds / 1e3:.0f} ms" for package, microseconds in ordered[:_SHOWN]]
