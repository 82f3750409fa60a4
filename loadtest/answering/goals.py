"""Limits and goals for the ratios of CPU time in one run.

Path: results.py -> here -> report.py, cli.py.
Rule 1: a goal is judged by the more stable method that both sides have; the other method's ratio is shown too.
Rule 2: a goal that could not be measured fails; one that was not selected is not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from loadtest import figures
from loadtest.answering.mixes import DNSPERF, DRAIN
from loadtest.answering.results import Results
from loadtest.programs import COREDNS, DICT, ECHO, KNOT, NATIVE, PURE


class Goal(NamedTuple):
    """The ratio of `ours` to `others` (each a mix and a server): at most `limit` if given, ideally at most `aim`."""

    what: str
    ours: tuple[str, str]
    others: tuple[str, str]
    limit: float | None
    aim: float | None = None


GOALS: Final = (
    Goal("compiled, a hit: C echo of equal reply size", ("hot", NATIVE), ("hot", ECHO), 1.25, 1.10),
    Goal("compiled, a hit: Knot DNS", ("hot", NATIVE), ("hot", KNOT), 0.8, 0.7),
    Goal("compiled, a hit: CoreDNS", ("hot", NATIVE), ("hot", COREDNS), None, 1 / 20),
    Goal("compiled, from many ports: C echo", ("ports", NATIVE), ("ports", ECHO), 1.25, 1.1),
    Goal("compiled, from many ports: Knot DNS", ("ports", NATIVE), ("ports", KNOT), None, 0.8),
    Goal("compiled, search path: its hit", ("search", NATIVE), ("hot", NATIVE), 1.25, 1.15),
    Goal("compiled, random names: its hit", ("random", NATIVE), ("hot", NATIVE), 1.25, 1.15),
    Goal("compiled, cookies and mixed case: its hit", ("cookies", NATIVE), ("hot", NATIVE), None, 1.2),
    Goal("compiled, a cached external name: its hit", ("cached", NATIVE), ("hot", NATIVE), 1.2),
    Goal("compiled, 100,000 names: 1,000 names", ("names-100k", NATIVE), ("names-1k", NATIVE), 1.2),
    Goal("compiled, TCP: CoreDNS", ("tcp", NATIVE), ("tcp", COREDNS), 1 / 3),
    Goal("pure Python, a hit: dict server", ("hot", PURE), ("hot", DICT), 1.5, 1.2),
    Goal("pure Python, a hit: CoreDNS", ("hot", PURE), ("hot", COREDNS), 1 / 4, 1 / 8),
    Goal("pure Python, search path: its hit", ("search", PURE), ("hot", PURE), 2.5, 1.25),
    Goal("pure Python, random names: its hit", ("random", PURE), ("hot", PURE), 2.5, 1.25),
    Goal("pure Python, cookies and mixed case: its hit", ("cookies", PURE), ("hot", PURE), None, 1.2),
    Goal("pure Python, a cached external name: its hit", ("cached", PURE), ("hot", PURE), 1.5),
    Goal("pure Python, 100,000 names: 1,000 names", ("names-100k", PURE), ("names-1k", PURE), 1.2),
    Goal("pure Python, TCP: CoreDNS", ("tcp", PURE), ("tcp", COREDNS), 1 / 3),
)  # fmt: skip


class Verdict(NamedTuple):
    """A goal, the ratio that decides it and its method, and dnsperf's ratio."""

    goal: Goal
    ratio: float | None
    method: str | None
    beside: float | None

    @property
    def holds(self) -> bool:
        """Whether the ratio is within the limit; always true without a limit."""
        return figures.holds(self.ratio, self.goal.limit)

    @property
    def word(self) -> str:
        """The verdict in one or two words."""
        return figures.verdict(self.ratio, self.goal.limit, self.goal.aim)


def judge(results: Results, mixes: Collection[str], servers: Collection[str]) -> Sequence[Verdict]:
    """Judge every goal whose mixes and servers were selected."""
    verdicts = []
    for goal in GOALS:
        sides = (goal.ours, goal.others)
        if not all(mix in mixes and server in servers for mix, server in sides):
            continue
        best = results.best_ratio(goal.ours, goal.others)
        ratio, method = best if best is not None else (None, None)
        beside = results.ratio(goal.ours, goal.others, DNSPERF) if method == DRAIN else None
        verdicts.append(Verdict(goal, ratio, method, beside))
    return verdicts
