"""The figures of hsdns and CoreDNS and their ratios: as a table, and in the documentation.

Path: plan.py's Results -> here -> terminal, docs/performance.md.
Rule 1: both figures of a row come from the same run, and every table states the command and the machine.
Rule 2: a figure that was measured in several rounds is the median of those that are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loadtest.bench import listed, markdown
from loadtest.figures import median_of_known, ratio
from loadtest.programs import HSDNS, PEER

NAME = "bench-watch"  # in the marks of the page
MS, MB = 1e3, 1e-6  # of seconds and octets


class Figure(NamedTuple):
    """One figure of a server, in one round; `value` is None if it was not measured."""

    part: str
    what: str
    digits: int
    server: str
    value: float | None


class Results(NamedTuple):
    """One run.  `context`: the lines above the table, in order."""

    context: dict[str, str]
    figures: list[Figure]


class Row(NamedTuple):
    """One figure of both servers; None if it was not measured."""

    part: str
    what: str
    ours: float | None
    peers: float | None
    digits: int

    @property
    def cells(self) -> list[str]:
        """The cells of the row, as text."""
        share, figures = ratio(self.ours, self.peers), (self.ours, self.peers)
        shown = ("" if value is None else f"{value:,.{self.digits}f}" for value in figures)
        return [self.part, self.what, *shown, "" if share is None else f"{share:.2f}"]


def figures(part: str, server: str, *rows: tuple[str, float | None, int]) -> list[Figure]:
    """The figures of a server in a part: each its name, its value and its digits behind the point."""
    return [Figure(part, what, digits, server, value) for what, value, digits in rows]


def rows(measured: Iterable[Figure]) -> list[Row]:
    """The rows of all figures that any server has, in their order."""
    found: dict[tuple[str, str, int], dict[str, list[float | None]]] = {}
    for part, what, digits, server, value in measured:
        found.setdefault((part, what, digits), {}).setdefault(server, []).append(value)
    made = []
    for (part, what, digits), by in found.items():
        ours, peers = (median_of_known(by.get(name, ())) for name in (HSDNS, PEER))
        made.append(Row(part, what, ours, peers, digits))
    return [row for row in made if row.ours is not None or row.peers is not None]


def section(results: Results, goals: str = "") -> str:
    """The section between the markers of the page; `goals` is the table of verdicts."""
    cells = [row.cells for row in rows(results.figures)]
    table = markdown([["part", "figure", HSDNS, PEER, "ratio"], *cells], (0, 1), padded=True)
    parts = (listed(results.context), table, goals)
    return "\n\n".join(part.rstrip() for part in parts if part)
