"""Compares two servers in turns, one with a control door and one without, and then the first while it explains.

Path: `python -m loadtest.door` -> here -> pressure/asker.c, and the servers under test.
Rule 1: everything is on loopback and bounded in time: about SECONDS for each of 5 rounds of a turn.
Rule 2: a round with explanations is compared with the rounds before and after it; the result is the median of the
        turns' ratios.
Rule 3: the p99 of one round says little on a machine with other work.  So the limit is judged by a sign test: the
        number of turns that were within it.  If that number could be chance (CHANCE), there is no verdict.
Rule 4: all queries are answered from the answer table, for names of other Services than the explained one.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from math import comb, sqrt
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from loadtest.bench import markdown
from loadtest.dns import query_of
from loadtest.ports import free_port
from loadtest.pressure.clients import A, Client, Counts, compile_tools
from loadtest.process import BenchmarkError, InThread, Process, run_benchmark
from loadtest.programs import configuration
from loadtest.server import start, wait_answering

RATE: Final = 50_000  # queries a second
SECONDS: Final = 1.0  # of a round
TURNS: Final = 40
EVERY: Final = 0.5  # seconds between two explanations
SERVICES: Final = 10_000
MOST_P99: Final = 1.2  # the ratio to the p99 without explanations
CHANCE: Final = (
    0.05  # the probability of so many turns on one side of the limit, if the median is on the other
)
EXPLAINED: Final = ("svc-5.ns-0.svc.cluster.local", "svc-55x.ns-0.svc.cluster.local")


class Explained(NamedTuple):
    """The p99 of a turn's rounds, in microseconds: without explanations, with them, and without again."""

    before: float
    during: float
    after: float

    @property
    def quiet(self) -> float:
        """The p99 without explanations: the geometric mean of both rounds."""
        return sqrt(self.before * self.after)

    @property
    def ratio(self) -> float:
        """The ratio of the p99 with explanations to that without."""
        return self.during / self.quiet


class Figures(NamedTuple):
    """CPU microseconds of a hit in each turn, without the door and with it; p99s; seconds of each explanation."""

    costs: tuple[Sequence[float], Sequence[float]]
    p99s: Sequence[Explained]
    took: Sequence[float]

    @property
    def within(self) -> int:
        """The number of turns with a ratio of the p99 of at most MOST_P99."""
        return sum(each.ratio <= MOST_P99 for each in self.p99s)

    @property
    def holds(self) -> bool | None:
        """Whether the median of the ratios is within the limit; None without a verdict."""
        within, turns = self.within, len(self.p99s)
        if chance(within, turns) <= CHANCE:
            return True
        return False if chance(turns - within, turns) <= CHANCE else None

    def table(self) -> str:
        """The medians as a table of Markdown; a ratio is the median of those of each turn."""
        columns = {
            "CPU of a hit, us": list(zip(*self.costs, strict=True)),
            "p99 of 50,000 queries a second, us": [(each.quiet, each.during) for each in self.p99s],
        }
        cells = [
            [name, *(f"{median(each):.2f}" for each in (*zip(*pairs, strict=True), [on / off for off, on in pairs]))]
            for name, pairs in columns.items()
        ]  # fmt: skip
        lines = [
            markdown([["figure", "without", "with", "ratio"], *cells], (0,), padded=True),
            f"the ratio of the p99 was at most {MOST_P99:g} in {self.within} of {len(self.p99s)} turns",
            f"an explanation took {median(self.took) * 1000:.1f} ms (median of {len(self.took)})",
        ]
        return "\n".join(lines)


class Explaining(InThread):
    """Requests an explanation every EVERY seconds, in a thread; a context manager."""

    def __init__(self, control: str) -> None:
        super().__init__()
        self.took: list[float] = []  # seconds
        self._control = control

    def run(self) -> None:
        """Request one explanation after the other."""
        while not self._over.wait(EVERY):
            name = EXPLAINED[len(self.took) % len(EXPLAINED)]
            began = time.monotonic()
            explain(self._control, name)
            self.took.append(time.monotonic() - began)


def explain(control: str, name: str) -> bytes:
    """Read the response with an explanation, but do not parse it: the client's work is not the server's cost."""
    request = (
        f"GET /v1/explain?name={name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    response = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(control)
        connection.sendall(request.encode())
        while piece := connection.recv(65536):
            response += piece
    if b'"cause"' not in response:
        raise BenchmarkError(f"no explanation of {name}: {response[:200]!r}")
    return response


def measure(folder: Path, turns: int) -> Figures:
    """Run the benchmark once; raise BenchmarkError."""
    tools = compile_tools(folder, "")
    control = str(folder / "c.sock")
    numbers = range(100, 1100)
    asked = [f"svc-{number}.ns-{number // 100}.svc.cluster.local" for number in numbers]
    names = tools.names("names", asked, A)
    costs: tuple[list[float], list[float]] = ([], [])
    p99s: list[Explained] = []
    took: list[float] = []
    query = query_of(EXPLAINED[0], "A")
    with ExitStack() as stack:

        def start_with(name: str, line: str) -> tuple[int, Process]:
            port = free_port()
            corefile = configuration("door.Corefile", port=port, control=line, services=SERVICES)
            server = stack.enter_context(start(folder, name, corefile))
            wait_answering(server, port, query)
            return port, server

        def ask(server: tuple[int, Process]) -> tuple[Counts, float]:
            """The counts of a round, and CPU microseconds for each reply."""
            port, process = server
            before = process.cpu()
            words = (str(tools.asker), str(port), str(RATE), str(SECONDS), str(names))
            with Client(words, SECONDS, honest=True) as client:
                counts = client.counts()
            if not counts.answered:
                raise BenchmarkError(f"the server answers nothing:\n{process.printed()}")
            return counts, (process.cpu() - before) * 1e6 / counts.answered

        servers = start_with("closed", ""), start_with("open", f"control {control}")
        for server in servers:
            ask(server)  # fills the answer table
        explain(control, EXPLAINED[0])
        for turn in range(turns):
            for place in (1, 0) if turn % 2 else (0, 1):  # each first in every other turn
                costs[place].append(ask(servers[place])[1])
            rounds = []
            for explains in (False, True, False):
                explaining = Explaining(control)
                with explaining if explains else nullcontext():
                    rounds.append(ask(servers[1])[0].p99_us)
                took += explaining.took
            p99s.append(Explained(*rounds))
    return Figures(costs, p99s, took)


def chance(heads: int, tosses: int) -> float:
    """The probability of this many heads, or more, with a fair coin."""
    return sum(comb(tosses, number) for number in range(heads, tosses + 1)) / 2.0**tosses


def main() -> int:
    """Run the benchmark; return the exit status, 2 without a verdict."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.door", description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"default: {TURNS}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-door-") as folder:
        found = measure(Path(folder), chosen.turns)
    print(found.table())
    if found.holds is None:
        print(
            f"that may be chance, so nothing is told of the limit of {MOST_P99:g} times: "
            "let nothing else run, or give it more --turns",
            file=sys.stderr,
        )
        return 2
    if not found.holds:
        print(f"explanations make others wait longer than {MOST_P99:g} times", file=sys.stderr)
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(run_benchmark("bench-door", main))
