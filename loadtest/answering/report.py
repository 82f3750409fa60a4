"""The tables of a run: on the terminal, and in the section "Answering" of docs/performance.md.

Path: cli.py -> here <- results.py, goals.py.
Rule 1: both have the same cells; only the separators differ.
Rule 2: only the part of the page between two marks is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from loadtest.answering.goals import Verdict
from loadtest.answering.mixes import DNSPERF, DRAIN, Mix
from loadtest.answering.results import Results
from loadtest.process import BenchmarkError
from loadtest.programs import ECHO, TITLES

BEGIN: Final = "<!-- bench: begin -->"
END: Final = "<!-- bench: end -->"
Rows = list[list[str]]
Render = Callable[[Rows], str]
_HEAD = [
    "server",
    "drain µs",
    "least",
    "/ echo",
    "dnsperf µs",
    "/ echo",
    "answers/s",
    "p50 µs",
    "p99 µs",
    "octets",
    "remarks",
]


class Setting(NamedTuple):
    """The circumstances of a run that a reader needs to judge the figures."""

    command: str
    machine: str
    date: str
    versions: Sequence[tuple[str, str]]  # title, version
    missing: Sequence[str]


def mix_rows(results: Results, mix: Mix) -> Rows:
    """The table of a mix with its header; only the header if nothing was measured."""
    return [_HEAD, *(row for key in TITLES if (row := _row(results, mix, key)) is not None)]


def _row(results: Results, mix: Mix, key: str) -> list[str] | None:
    drained = results.figures(mix.key, key, DRAIN)
    loaded = results.figures(mix.key, key, DNSPERF)
    if drained is None and loaded is None:
        return None
    warm_up = results.warm_up(mix.key, key)
    remarks = []
    if drained is not None and drained.lost > 0.01:
        remarks.append(f"drain: kept {1 - drained.lost:.0%}")
    if loaded is not None and loaded.lost > 0.001:
        remarks.append(f"dnsperf: lost {loaded.lost:.1%}")
    if warm_up is not None and warm_up.different:
        remarks.append(f"{warm_up.different / warm_up.asked:.1%} answered differently")
    if warm_up is not None and warm_up.unanswered:
        remarks.append(f"{warm_up.unanswered / warm_up.asked:.1%} unanswered")
    return [
        TITLES[key],
        _number(drained and drained.cpu_us),
        _number(drained and drained.min_us),
        _number(results.ratio((mix.key, key), (mix.key, ECHO), DRAIN)),
        _number(loaded and loaded.cpu_us),
        _number(results.ratio((mix.key, key), (mix.key, ECHO), DNSPERF)),
        _integer(loaded and loaded.rate),
        _integer(loaded and loaded.p50_us),
        _integer(loaded and loaded.p99_us),
        _integer(warm_up and warm_up.octets),
        "; ".join(remarks),
    ]


def goal_rows(verdicts: Sequence[Verdict]) -> Rows:
    """The table of the goals with its header."""
    rows = [["ratio", "measured", "by", "dnsperf", "limit", "aim", "verdict"]]
    for verdict in verdicts:
        goal = verdict.goal
        rows.append(
            [
                goal.what,
                _number(verdict.ratio),
                verdict.method or "",
                _number(verdict.beside),
                _number(goal.limit),
                _number(goal.aim),
                verdict.word,
            ]
        )
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _integer(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def plain(rows: Rows) -> str:
    """Format a table for a terminal: the first and the last column left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def markdown(rows: Rows) -> str:
    """Format a table for the page."""
    last = len(rows[0]) - 1
    rule = ["---" if column in (0, last) else "---:" for column in range(last + 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [rows[0], rule, *rows[1:]])


def text(results: Results, mixes: Sequence[Mix], verdicts: Sequence[Verdict]) -> str:
    """All tables for a terminal."""
    parts = [_titled(f"{mix.key}: {mix.title}", results, mix, plain) for mix in mixes]
    if verdicts:
        parts.append("goals\n" + plain(goal_rows(verdicts)))
    return "\n".join(part for part in parts if part)


def section(
    results: Results, mixes: Sequence[Mix], verdicts: Sequence[Verdict], setting: Setting
) -> str:
    """The section between the marks of the page."""
    told = {"command": f"`{setting.command}`", "date": setting.date, "machine": setting.machine}
    told |= dict(setting.versions)
    parts = [
        "The figures are those of this run:",
        "\n".join(f"- {what}: {value}" for what, value in told.items()),
    ]
    if setting.missing:
        parts.append("\n".join(f"- missing: {each}" for each in setting.missing))
    if verdicts:
        parts.append("### Goals\n\n" + markdown(goal_rows(verdicts)).rstrip())
    parts += [
        _titled(
            f"### {mix.key}\n\n{mix.title[0].upper()}{mix.title[1:]}.\n", results, mix, markdown
        ).rstrip()
        for mix in mixes
    ]
    return "\n\n".join(part for part in parts if part)


def _titled(title: str, results: Results, mix: Mix, render: Render) -> str:
    rows = mix_rows(results, mix)
    return f"{title}\n{render(rows)}" if len(rows) > 1 else ""


def replaced(page: str, written: str) -> str:
    """Replace the section between the marks of a page; raise BenchmarkError unless each occurs once, in order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise BenchmarkError(
            f"the page must have the lines {BEGIN} and {END} once each, in this order"
        )
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{written}\n\n{END}{rest.partition(END)[2]}"
