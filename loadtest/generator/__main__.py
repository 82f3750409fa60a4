"""Measures the load generator: its cost and lateness, over UDP and over connections, and its search for a knee.

Path: `python -m loadtest.generator` -> here -> measure.py; knot.py, whether tcpdump sees the same service times, and
      whether what happens to the generator is charged to the server.
Rule 1: each part with a limit reports whether it holds; the exit status is 0 if all hold, 1 if one does not, 2 if
        nothing was measured.  The limits are for a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from loadtest import bench
from loadtest.figures import Checked, told
from loadtest.generator.knot import WIRE_RATES, compare, through_trouble
from loadtest.generator.measure import (
    COMPILED,
    DNSPERF,
    PYTHON,
    SECONDS,
    TURNS,
    costs,
    find_knees,
    knees_told,
    lateness,
    over_connections,
    over_udp,
    table,
)
from loadtest.process import run_benchmark
from loadtest.programs import ECHO, KNOT, NATIVE

UDP: Final = "udp"
CONNECTIONS: Final = "connections"
KNEE: Final = "knee"
WIRE: Final = "wire"
TROUBLE: Final = "trouble"
PARTS: Final = (UDP, CONNECTIONS, KNEE, WIRE, TROUBLE)
SERVERS: Final = (ECHO, NATIVE, KNOT)  # loaded over UDP
LATEST: Final = {(COMPILED, 100_000): 50.0, (PYTHON, 30_000): 50.0}  # microseconds
COSTS: Final = {(COMPILED, 50_000): 1.2}  # times the CPU time of dnsperf


def parse() -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.generator", description=__doc__)
    parser.add_argument(
        "--parts", type=bench.among(PARTS), default=PARTS, metavar="PART,...",
        help=f"of {', '.join(PARTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--turns", type=int, default=TURNS, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of a run (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    """Run the benchmark; return the exit status."""
    options = parse()
    status = 0
    for part in options.parts:
        with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
            text, checked = _run(part, Path(folder), options)
        print(text)
        status |= told(checked)
        print(flush=True)
    return status


def _run(part: str, folder: Path, options: argparse.Namespace) -> tuple[str, list[Checked]]:
    """The figures of a part, and its limits."""
    if part == KNEE:
        lines, found = knees_told(find_knees(folder))
        return "\n".join(lines), [found]
    if part == WIRE:
        seen = compare(folder, tuple(WIRE_RATES), options.seconds)
        return "service times, and those that tcpdump sees", seen
    if part == TROUBLE:
        return "the generator in trouble, a server that is not", through_trouble(
            folder, options.seconds
        )
    if part == CONNECTIONS:
        return table(over_connections(folder, options.turns, options.seconds), DNSPERF), []
    rows = over_udp(folder, SERVERS, options.turns, options.seconds)
    return f"{table(rows, DNSPERF)}\n", [*costs(rows, COSTS), *lateness(rows, LATEST)]


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-load", main))
