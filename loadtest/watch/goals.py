"""Limits and aims for the figures of one run.

Path: report.rows() -> here -> report.py, cli.py.
Rule 1: a ratio is hsdns divided by CoreDNS; an own figure is hsdns's, in the unit of its row, or divided by another one
        of hsdns's.
Rule 2: a goal that was not measured fails if it has a limit; one whose part or size was not selected is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from loadtest import figures
from loadtest.bench import markdown
from loadtest.figures import ratio
from loadtest.watch.report import Row

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


class Verdict(NamedTuple):
    """A goal and the figure that decides it."""

    goal: Goal
    value: float | None

    @property
    def holds(self) -> bool:
        """Whether the figure is within the limit; always true without a limit."""
        return figures.holds(self.value, self.goal.limit)

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return figures.verdict(self.value, self.goal.limit, self.goal.aim)


_START, _LATENCY, _CHURN, _FLOOD, _RETURN, _IMPORTS = (
    "start", "latency", "churn", "flood", "return", "imports",
)  # fmt: skip
_BEFORE: Final = "before the watches are open, CPU ms"
_RESIDENT: Final = "resident 10 s after ready, MB"

GOALS: Final = (
    Goal("imports", _BEFORE, "all for kubeadm's Corefile, CPU ms", None, 0.5, (_IMPORTS, None)),
    Goal("empty cluster", _RESIDENT, PEERS, None, 0.6, (_START, 0)),
    Goal("1,000 Services", "start to ready, s", PEERS, None, 2.5, (_START, 1_000)),
    Goal("10,000 Services", "start to ready, s", PEERS, 1.3, 1.0, (_START, 10_000)),
    Goal("10,000 Services", "CPU to ready, s", PEERS, None, 0.8, (_START, 10_000)),
    Goal("10,000 Services", "API server's CPU meanwhile, s", PEERS, None, 1.1, (_START, 10_000)),
    Goal("50,000 Services", "start to ready, s", PEERS, None, 0.8, (_START, 50_000)),
    Goal("50,000 Services", _RESIDENT, PEERS, None, 0.25, (_START, 50_000)),
    Goal("write to answer", "median, ms", PEERS, 1.3, 1.0, (_LATENCY, None)),
    Goal("write to answer", "p99, ms", PEERS, None, 0.6, (_LATENCY, None)),
    Goal("1,000 changes/s", "event to answer, p99, ms", PEERS, None, 1.0, (_CHURN, None)),
    Goal("5,000 changes/s", "CPU, s", PEERS, None, 0.25, (_FLOOD, None)),
    Goal("5,000 changes/s", "resident at the end, MB", "resident after 10 s, MB", 1.2, 1.05, (_FLOOD, None)),
    Goal("5,000 changes/s", "names wrong at the end", ITSELF, 0.0, None, (_FLOOD, None)),
    Goal("API server away", "from its return until the state is current, s", ITSELF, 2.0, None, (_RETURN, None)),
)  # fmt: skip


def judge(rows: Sequence[Row], parts: Sequence[str], sizes: Sequence[int]) -> list[Verdict]:
    """Judge every goal whose part, and whose number of Services, was selected."""
    return [
        Verdict(goal, _value(goal, rows))
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
    return markdown(lines, (0, 1), padded=True)


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
