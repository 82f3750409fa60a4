"""Limits for hsdns under each kind of pressure.

Path: results.py -> here -> report.py, cli.py.
Rule 1: a limit is a number, or a multiple of CoreDNS's figure in the same run.
Rule 2: a figure that could not be measured fails, because a server ended, or because there was no CoreDNS to compare
        with.  Rows that were not selected are not judged.
Rule 3: the limits for events, memory and wrong answers apply to every row with a server under attack.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from loadtest.pressure.http2 import ATTACKS
from loadtest.pressure.results import Outcome
from loadtest.pressure.rows import ROWS
from loadtest.programs import COREDNS, NATIVE, PURE

HIGHEST, LOWEST = "at most", "at least"
KUBEADM_MB: Final = 178  # 170 MiB, the memory limit in kubeadm's manifest
_OURS = (NATIVE, PURE)
_HTTP = ("http-head", "http-heads", "http-bad", "http-streams")
_UNALIKE = ("corefile", "yaml")  # not the stock Corefile


class Share(NamedTuple):
    """A share that a figure must have at least."""

    figure: str
    least: float


class Goal(NamedTuple):
    """A figure of a row on some servers; `peers`: the limit is a multiple of CoreDNS's figure.

    `instead`: a share that is enough, whatever the figure is.
    """

    row: str
    figure: str
    sense: str
    limit: float
    servers: tuple[str, ...] = _OURS
    peers: bool = False
    instead: Share | None = None


EVENT_P99_MS, EVENT_WORST_MS, PROBES_ANSWERED = 20.0, 100.0, 0.99
EVERYWHERE: Final = (
    ("event p99, ms", HIGHEST, EVENT_P99_MS),
    ("event worst, ms", HIGHEST, EVENT_WORST_MS),
    ("stale or wrong answers", HIGHEST, 0.0),
)
GOALS: Final = (
    *(Goal(row.key, *each) for row in ROWS if not row.files for each in EVERYWHERE),
    *(
        Goal(row.key, "peak RSS, MB", HIGHEST, KUBEADM_MB)
        for row in ROWS
        if row.key not in _UNALIKE
    ),
    Goal("existing", "answered", LOWEST, 0.95),
    Goal("existing", "honest answered", LOWEST, 0.99),
    Goal("new-4k", "answered", LOWEST, 0.99),
    Goal("new-4k", "CPU µs an answer", HIGHEST, 1.5, peers=True),
    # A small machine cannot answer all.  What it answers comes soon then, and other clients do not wait.
    Goal("new-12k", "pressing p99, ms", HIGHEST, 2.0, peers=True, instead=Share("answered", 0.95)),
    Goal("new-12k", "honest answered", LOWEST, 0.99),
    Goal("fair", "answered", LOWEST, 0.99, (NATIVE,)),
    *(Goal(row, "honest answered", LOWEST, 0.99) for row in ("fair", "misses")),
    *(Goal(row, "honest p99 / quiet p99", HIGHEST, 3.0) for row in ("fair", "misses")),
    Goal("unread", "TCP answered", LOWEST, 0.99),
    Goal("unread", "health answered", LOWEST, 0.99),
    Goal("unread", "honest answered", LOWEST, 0.99),
    Goal("descriptors", "health answered", LOWEST, 0.99),
    Goal("descriptors", "TCP answered", LOWEST, 0.99),
    *(Goal(f"doh-{kind}", "honest p99 / quiet p99", HIGHEST, 3.0) for kind in ATTACKS),
    *(Goal(f"doh-{kind}", "honest answered", LOWEST, 0.99) for kind in ATTACKS),
    *(Goal(f"doh-{kind}", "TCP answered", LOWEST, 0.99) for kind in ATTACKS),
    # Others have the address of the attackers.
    *(Goal(f"doh-{kind}", f"{over} answered", LOWEST, 0.95) for kind in ATTACKS for over in ("DoT", "DoH")),
    *(Goal(f"doh-{kind}", "CPU, s", HIGHEST, 1.2, peers=True) for kind in ATTACKS),
    Goal("doh-requests", "CPU µs an answer", HIGHEST, 1.2, peers=True),
    Goal("large", "answered", LOWEST, 0.99),
    Goal("large", "honest answered", LOWEST, 0.99),
    Goal("zonal", "answered", LOWEST, 0.99),
    Goal("zonal", "RSS growth, MB", HIGHEST, 8.0),
    Goal("corefile", "honest worst, ms", HIGHEST, 20.0),
    Goal("corefile", "honest answered", LOWEST, 0.99),
    Goal("silent", "health answered", LOWEST, 0.99),
    *(Goal(row, "honest p99 / quiet p99", HIGHEST, 3.0) for row in _HTTP[:3]),
    # A loop that paints the pictures of all readers answers in between, in pure Python the queries as well.
    Goal("http-streams", "honest p99 / quiet p99", HIGHEST, 3.0, (NATIVE,)),
    *(Goal(row, "honest answered", LOWEST, 0.99) for row in _HTTP),
    *(Goal(row, "health answered", LOWEST, 0.99) for row in _HTTP),
    *(Goal(row, "RSS growth, MB", HIGHEST, 8.0) for row in _HTTP),
    *(Goal(row, "lines of log", HIGHEST, 2.0) for row in _HTTP),
    Goal("http-bad", "answered", LOWEST, 0.99),
    Goal("http-streams", "answered", LOWEST, 0.99),
    Goal("bare", "honest answered", LOWEST, 0.99),
    Goal("yaml", "answered", LOWEST, 1.0),
    Goal("yaml", "CPU, s", HIGHEST, 2.0),
    Goal("yaml", "peak RSS, MB", HIGHEST, 200.0),
)  # fmt: skip


class Verdict(NamedTuple):
    """A goal on one server, the figure, the limit as a number, and the share that the goal accepts instead."""

    goal: Goal
    server: str
    value: float | None
    limit: float | None
    share: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure is within the limit, or the share is enough."""
        if self.value is None or self.limit is None:
            return False
        within = operator.le if self.goal.sense == HIGHEST else operator.ge
        return bool(within(self.value, self.limit)) or self._has_share

    @property
    def word(self) -> str:
        """The verdict in a few words."""
        if self.value is None or self.limit is None:
            return "not measured"
        if self.goal.instead is not None and self._has_share:
            return f"holds: {self.goal.instead.figure} {self.share:.0%}"
        return "holds" if self.holds else "FAILS"

    @property
    def _has_share(self) -> bool:
        instead = self.goal.instead
        return instead is not None and self.share is not None and self.share >= instead.least


def judge(
    outcomes: Sequence[Outcome], rows: Collection[str], servers: Collection[str]
) -> list[Verdict]:
    """Judge every goal whose row and server were selected."""
    found = {(each.row, each.server): each for each in outcomes}
    verdicts = []
    for goal in GOALS:
        for server in goal.servers:
            if goal.row not in rows or server not in servers:
                continue
            if goal.peers and COREDNS not in servers:
                continue
            limit = _limit(goal, found.get((goal.row, COREDNS)))
            outcome = found.get((goal.row, server))
            share = _figure(outcome, goal.instead.figure) if goal.instead else None
            verdicts.append(Verdict(goal, server, _figure(outcome, goal.figure), limit, share))
    return verdicts


def _figure(outcome: Outcome | None, name: str) -> float | None:
    return None if outcome is None else outcome.figure(name)


def _limit(goal: Goal, peer: Outcome | None) -> float | None:
    if not goal.peers:
        return goal.limit
    value = _figure(peer, goal.figure)
    return None if value is None else value * goal.limit
