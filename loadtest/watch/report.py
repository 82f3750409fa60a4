"""The results of hsdns and CoreDNS and their ratios: as a table, as JSON, and in the documentation.

Path: plan.py's Results -> here -> terminal, file, docs/performance.md.
Rule 1: both figures of a row come from the same run, and every table states the command and the machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from loadtest import summary
from loadtest.figures import median_of_known, ratio
from loadtest.process import BenchmarkError
from loadtest.programs import HSDNS, PEER
from loadtest.watch.churn import MEMORY_EVERY, Churn
from loadtest.watch.imports import Imports
from loadtest.watch.latency import Latency
from loadtest.watch.outage import Outage
from loadtest.watch.startup import Startup

BEGIN = "<!-- bench-watch: begin -->"
END = "<!-- bench-watch: end -->"
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


HEADINGS = ("part", "figure", HSDNS, PEER, "ratio")


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
    """The figures as a table."""
    return aligned([HEADINGS, *(row.cells for row in rows(results))])


def aligned(lines: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table that is also readable as plain text; the first line has the headings."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    written = []
    for number, line in enumerate(lines):
        cells = (
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        written.append(f"| {' | '.join(cells)} |")
        if number == 0:
            marks = (
                "-" * width if i < 2 else "-" * (width - 1) + ":" for i, width in enumerate(widths)
            )
            written.append(f"| {' | '.join(marks)} |")
    return "\n".join(written) + "\n"


def section(results: Results, goals: str = "") -> str:
    """The section between the markers of the page; `goals` is the table of verdicts."""
    told = "".join(f"- {what}: {value}\n" for what, value in results.context.items())
    return f"{told}\n{table(results)}{goals and chr(10)}{goals}"


def as_json(results: Results) -> str:
    """All measurements, as JSON."""
    parts: dict[str, Any] = {"context": results.context}
    parts["startup"] = [one._asdict() for one in results.startup]
    parts["imports"] = [one._asdict() for one in results.imports]
    parts["outages"] = [one._asdict() for one in results.outages]
    parts["latency"] = [one._asdict() | {"delay": one.delay._asdict()} for one in results.latency]
    parts["churn"] = [
        one._asdict() | {"load": one.load._asdict(), "delay": one.delay and one.delay._asdict()}
        for one in results.churn
    ]
    return json.dumps(parts, indent=2) + "\n"


def replace_section(page: str, text: str) -> str:
    """Replace the section between the markers of a page; raise BenchmarkError unless each occurs once, in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise BenchmarkError(
            f"the page must have the lines {BEGIN} and {END} once each, in this order"
        )
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}"


def write_docs(page: Path, results: Results, goals: str = "") -> None:
    """Update the section of a page, and its beginning; raise BenchmarkError if a figure of that was not measured."""
    summary.write(page, replace_section(page.read_text(), section(results, goals)))
