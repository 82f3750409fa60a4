"""How long a thread waits for a CPU beside one that works in pieces, with the kernel's default slice and a short one.

    python -m loadtest.wake

Path: here -> wake.c, once for each case and slice -> a table on standard output.
Rule: each round measures every case with both slices, so that other work of the machine affects all of them.  The
      figures are the medians of the rounds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from loadtest.process import BenchmarkError, run_benchmark
from loadtest.programs import compile_c

COUNT: Final = 4_000  # waits in a round
ROUNDS: Final = 7
SHORT: Final = 100  # microseconds: native/src/system/slice.rs
SLICES: Final = (0, SHORT)
CASES: Final = ((100, 1_000), (500, 1_000), (2_000, 1_000))  # microseconds of work and of rest
TIMEOUT: Final = 60.0  # seconds


class Waits(NamedTuple):
    """Microseconds: the median, p90 and p99."""

    p50: float
    p90: float
    p99: float


Measure = Callable[[int, int, int], Waits]


def compiled(folder: Path) -> Measure:
    """The command that measures a slice beside pieces with rests, all in microseconds; raise BenchmarkError."""
    program = compile_c(Path(__file__).with_name("wake.c"), folder, "-pthread")

    def measure(slice_: int, piece: int, rest: int) -> Waits:
        words = (str(program), *map(str, (slice_, piece, rest, COUNT)))
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise BenchmarkError(f"{program} failed: {done.stderr[-500:]}")
        said = done.stdout
        return Waits(*map(float, said.split()))

    return measure


def compare(measure: Measure, rounds: int) -> list[str]:
    """A row of the table for each case."""
    found: dict[tuple[int, int, int], list[Waits]] = {}
    for number in range(rounds):
        for piece, rest in CASES:
            for slice_ in SLICES if number % 2 else reversed(SLICES):
                found.setdefault((slice_, piece, rest), []).append(measure(slice_, piece, rest))
    return [_row(piece, [found[slice_, piece, rest] for slice_ in SLICES]) for piece, rest in CASES]


def _row(piece: int, sides: Sequence[Sequence[Waits]]) -> str:
    shown = [
        f"{median(each.p50 for each in side):,.0f} | {median(each.p90 for each in side):,.0f} | "
        f"{median(each.p99 for each in side):,.0f}"
        for side in sides
    ]
    return f"| {piece / 1000:g} ms | {shown[0]} | {shown[1]} |"


def main() -> int:
    """Run the benchmark; return the exit status."""
    print(
        "| pieces of | the kernel's slice: p50, µs | p90 | p99 | a short one: p50, µs | p90 | p99 |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="bench-wake-") as folder:
        print(*compare(compiled(Path(folder)), ROUNDS), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-wake", main))
