"""The results of hsdns and CoreDNS and their ratios: as a table, as JSON, and in the documentation.

Path: plan.py's Results -> here -> terminal, file, docs/performance.md.
Rule 1: both figures of a row come from the same run, and every table states the command and the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from statistics import median
from typing import Any, NamedTuple

from loadtest.bench import listed, markdown
from loadtest.figures import median_of_known, ratio
from loadtest.programs import HSDNS, PEER
from loadtest.watch.churn import MEMORY_EVERY, Churn
from loadtest.watch.imports import Imports
from loadtest.watch.latency import Latency
from loadtest.watch.outage import Outage
from loadtest.watch.startup import Startup

NAME = "bench-watch"  # in the marks of the page
_MS, _MB = 1e3, 1e-6


class Results(NamedTuple):
    """One run.  `context`: the lines above each table, in order."""

    context: dict[str, str]
    startup: list[Startup]
    latency: list[Latency]
    churn: list[Churn]
    imports: Sequence[Imports] = ()
    outages: Sequence[Outage] = ()


class Row(NamedTuple):
    """One figure of both servers; None if it was not measured."""

    part: str
    what: str
    ours: float | None
    peers: float | None
    digits: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row, as text."""
        share = ratio(self.ours, self.peers)
        figures = (
            "" if value is None else f"{value:,.{self.digits}f}"
            for value in (self.ours, self.peers)
        )
        return (self.part, self.what, *figures, "" if share is None else f"{share:.2f}")


HEADINGS = ["part", "figure", HSDNS, PEER, "ratio"]


def rows(results: Results) -> list[Row]:
    """All figures, in the order of the parts."""
    return [
        *_imports(results.imports),
        *_startup(results.startup),
        *_latency(results.latency),
        *_outages(results.outages),
        *_churn(results.churn),
    ]


def _imports(measured: Sequence[Imports]) -> list[Row]:
    figures: tuple[tuple[str, Callable[[Imports], float], int], ...] = (
        ("an interpreter alone, CPU ms", lambda one: one.alone * _MS, 0),
        ("before the watches are open, CPU ms", lambda one: one.before * _MS, 0),
        ("all for kubeadm's Corefile, CPU ms", lambda one: one.all * _MS, 0),
        ("modules before the watches are open", lambda one: one.modules_before, 0),
        ("modules in all", lambda one: one.modules, 0),
    )
    return _pairs("imports", {one.server: one for one in measured}, figures)


def _outages(measured: Sequence[Outage]) -> list[Row]:
    found = []
    for services, away in dict.fromkeys((one.services, one.away) for one in measured):
        part = f"API server away for {away:.0f} s, {services:,} Services"
        times: list[list[float]] = []
        for name in (HSDNS, PEER):
            here = [one for one in measured if (one.server, one.services) == (name, services)]
            times.append([inf if one.current is None else one.current for one in here])
        for what, of in (("", median), (", longest", max)):
            ours, peers = (of(each) if each else None for each in times)
            found.append(
                Row(part, f"from its return until the state is current{what}, s", ours, peers, 2)
            )
    return _measured(found)


def _startup(measured: Sequence[Startup]) -> list[Row]:
    figures: tuple[tuple[str, Callable[[Startup], float | None], int], ...] = (
        ("start to ready, s", lambda one: one.ready, 2),
        ("CPU to ready, s", lambda one: one.cpu, 2),
        ("API server's CPU meanwhile, s", lambda one: one.api_cpu, 2),
        ("resident 10 s after ready, MB", lambda one: one.memory * _MB, 0),
        ("resident 180 s after ready, MB", lambda one: _mb(one.late_memory), 0),
        ("most resident so far, MB", lambda one: one.peak * _MB, 0),
    )
    found = []
    for services in sorted({one.services for one in measured}):
        for what, of, digits in figures:
            ours, peers = (
                median_of_known(
                    [of(one) for one in measured if (one.server, one.services) == (name, services)]
                )
                for name in (HSDNS, PEER)
            )
            part = f"{services:,} Services" if services else "empty cluster"
            found.append(Row(part, what, ours, peers, digits))
    return _measured(found)


def _latency(measured: Sequence[Latency]) -> list[Row]:
    figures: tuple[tuple[str, Callable[[Latency], float], int], ...] = (
        ("median, ms", lambda one: one.delay.median * _MS, 2),
        ("p90, ms", lambda one: one.delay.p90 * _MS, 2),
        ("p99, ms", lambda one: one.delay.p99 * _MS, 2),
        ("changes", lambda one: one.delay.samples, 0),
        ("shown before the API server answered", lambda one: one.early, 0),
        ("replies that did not come", lambda one: one.lost_replies, 0),
    )
    by_name = {one.server: one for one in measured}
    part = f"write to answer, {measured[0].services:,} Services" if measured else ""
    return _pairs(part, by_name, figures)


def _churn(measured: Sequence[Churn]) -> list[Row]:
    figures: tuple[tuple[str, Callable[[Churn], float | None], int], ...] = (
        ("changes a second reached", lambda one: one.reached, 0),
        ("event to answer, median, ms", lambda one: one.delay and one.delay.median * _MS, 2),
        ("event to answer, p99, ms", lambda one: one.delay and one.delay.p99 * _MS, 2),
        ("changes watched for", lambda one: one.delay and one.delay.samples, 0),
        ("resident before, MB", lambda one: one.memory[0] * _MB, 0),
        (
            "resident after 10 s, MB",
            lambda one: _mb(one.memory[1]) if one.load.seconds > MEMORY_EVERY else None,
            0,
        ),
        ("resident at the end, MB", lambda one: one.memory[-1] * _MB, 0),
        ("most resident, every 10 s, MB", lambda one: max(one.memory) * _MB, 0),
        ("CPU, s", lambda one: one.cpu, 1),
        ("last change shown at most after, ms", lambda one: one.settled and one.settled * _MS, 0),
        ("names wrong at the end", lambda one: one.wrong_names, 0),
    )
    found = []
    for load in dict.fromkeys(one.load for one in measured):
        beside = f", {load.queries:,.0f} queries/s" if load.queries else ""
        part = f"{load.rate:,.0f} changes/s for {load.seconds:.0f} s{beside}, {load.services:,} Services"
        by_name = {one.server: one for one in measured if one.load == load}
        found += _pairs(part, by_name, figures)
    return found


def _pairs(
    part: str,
    by_name: dict[str, Any],
    figures: Sequence[tuple[str, Callable[[Any], float | None], int]],
) -> list[Row]:
    ours, peers = by_name.get(HSDNS), by_name.get(PEER)
    return _measured(
        Row(part, what, ours and of(ours), peers and of(peers), digits)
        for what, of, digits in figures
    )


def _measured(found: Any) -> list[Row]:
    return [row for row in found if row.ours is not None or row.peers is not None]


def _mb(octets: int | None) -> float | None:
    return None if octets is None else octets * _MB


def table(results: Results) -> str:
    """The figures as a table, which is also readable as plain text."""
    cells = [list(row.cells) for row in rows(results)]
    return markdown([HEADINGS, *cells], (0, 1), padded=True)


def section(results: Results, goals: str = "") -> str:
    """The section between the markers of the page; `goals` is the table of verdicts."""
    parts = (listed(results.context), table(results), goals)
    return "\n\n".join(part.rstrip() for part in parts if part)
