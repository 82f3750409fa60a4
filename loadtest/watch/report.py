"""The figures of hsdns and CoreDNS, their ratios and limits: as tables, and in the documentation.

Path: Results of __main__.py -> here -> terminal, docs/contributing/benchmarks.md.
Rule 1: both figures of a row come from the same run, and every table states the command and the machine.
Rule 2: a figure that was measured in several rounds is the median of those that are known.
Rule 3: a ratio is hsdns divided by CoreDNS; an own figure is hsdns's, in the unit of its row, or divided by another one
        of hsdns's.  A goal whose part or size was not selected is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from loadtest.bench import listed, markdown
from loadtest.figures import Verdict, limit_of, median_of_known, ratio, read_goals
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
    table = markdown([["part", "figure", HSDNS, PEER, "ratio"], *cells], (0, 1))
    parts = (listed(results.context), table, goals)
    return "\n\n".join(part.rstrip() for part in parts if part)


# --- limits ---

PEERS: Final = "CoreDNS"  # the figure is divided by CoreDNS's
ITSELF: Final = ""  # the figure is judged as it is


class Goal(NamedTuple):
    """What of a row is judged; `of` is PEERS, ITSELF, or the name of another figure of the same part.

    `part` begins the name of the row's part; `needs` is the part of the plan, with the number of Services where that
    matters.
    """

    part: str
    figure: str
    of: str
    limit: float | None
    aim: float | None
    needs: tuple[str, int | None]


def _goal(part: str, figure: str, of: str, limit: str, aim: str, needs: str) -> Goal:
    name, _, services = needs.partition(" ")
    needed = name, int(services) if services else None
    return Goal(part, figure, of, limit_of(limit), limit_of(aim), needed)


GOALS: Final = [_goal(*cells) for cells in read_goals(Path(__file__).with_name("goals.txt"), 6)]


def judge(rows: Sequence[Row], parts: Sequence[str], sizes: Sequence[int]) -> list[Verdict]:
    """Judge every goal whose part, and whose number of Services, was selected."""
    return [
        Verdict(goal, _value(goal, rows), goal.limit, goal.aim)
        for goal in GOALS
        if goal.needs[0] in parts and (goal.needs[1] is None or goal.needs[1] in sizes)
    ]


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a table; "" without any."""
    if not verdicts:
        return ""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    lines = [["goal", "", "measured", "limit", "aim", "verdict"]]
    for each in verdicts:
        goal = each.goal
        of = {PEERS: "ratio to CoreDNS", ITSELF: "hsdns"}.get(goal.of, f"ratio to {goal.of}")
        numbers = map(number, (each.value, goal.limit, goal.aim))
        lines.append([f"{goal.part}: {goal.figure}", of, *numbers, each.word])
    return markdown(lines, (0, 1))


def _value(goal: Goal, rows: Sequence[Row]) -> float | None:
    found = {
        row.what: row
        for row in rows
        if row.part == goal.part or row.part.startswith((f"{goal.part} ", f"{goal.part},"))
    }
    row = found.get(goal.figure)
    if row is None or goal.of == ITSELF:
        return None if row is None else row.ours
    if goal.of == PEERS:
        return ratio(row.ours, row.peers)
    other = found.get(goal.of)
    return None if other is None else ratio(row.ours, other.ours)
