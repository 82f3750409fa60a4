"""Lets `hsdns load -find-knee` find the knee of a server whose capacity is known.

Path: __main__.py -> here -> paced.c, and `hsdns load`.
Rule 1: the server answers exactly RATE queries a second, so the knee is there: at lower rates no query waits, and at
        higher ones the queue grows by the difference.
Rule 2: each of RUNS searches must be within WITHIN of the capacity; a search without a result is a failure, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.figures import Checked
from loadtest.generators import HSDNS
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Process, on_core
from loadtest.programs import ROOT, compile_c

RATE: Final = 20_000  # queries a second
RUNS: Final = 3
WITHIN: Final = 0.02
LIMITS: Final = "p99<5ms,loss<=0.01%"
_SEARCH_TIMEOUT: Final = 540.0


class Search(NamedTuple):
    """The output of a search, and the knee in queries a second; None if it found none."""

    said: str
    knee: float | None

    def is_within(self, rate: float) -> bool:
        """Whether the result is right."""
        return self.knee is not None and abs(self.knee - rate) <= WITHIN * rate


def measure(
    folder: Path, core: int | None, runs: int = RUNS, rate: int = RATE, limits: str = LIMITS
) -> list[Search]:
    """Search several times; `core` is the server's; raise BenchmarkError."""
    program = compile_c(Path(__file__).with_name("paced.c"), folder)
    names, port = folder / "names", free_port()
    names.write_text("www.example.com A\n")
    with on_core(core):
        server = Process("paced", (str(program), str(port), str(rate)), folder)
    with server:
        return [_search(port, names, rate, limits, number) for number in range(1, runs + 1)]


def _search(port: int, names: Path, rate: int, limits: str, number: int) -> Search:
    print(f"search {number}: a server with {rate} queries a second", file=sys.stderr)
    words = (
        *HSDNS, "load", "-p", str(port), "-queries", str(names), "-find-knee",
        "-rate", str(rate // 4), "-knee-limits", limits, "-live", "none", "-o", "json",
    )  # fmt: skip
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, cwd=ROOT, timeout=_SEARCH_TIMEOUT, check=False
        )
        found = json.loads(done.stdout)["knee"]
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"a search did not end in {_SEARCH_TIMEOUT:.0f} s") from None
    except (ValueError, KeyError, TypeError):
        raise BenchmarkError(
            "`hsdns load -find-knee` wrote no report; what it says is above"
        ) from None
    return Search(found["said"], found["holds"] if found["found"] else None)


def told(searches: list[Search], rate: int = RATE) -> tuple[list[str], Checked]:
    """Lines about the searches, and whether all results are right."""
    good = sum(each.is_within(rate) for each in searches)
    lines = [
        f"{'found' if each.is_within(rate) else 'NOT FOUND'}: {each.said}" for each in searches
    ]
    said = f"the knee of a server with {rate} queries a second, within {WITHIN:.0%}: {good} of {len(searches)} searches"
    return lines, Checked(said, good == len(searches))
