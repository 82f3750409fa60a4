"""The tables of a run: on the terminal, and in the section "Answering" of docs/performance.md.

Path: cli.py -> here <- results.py, goals.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loadtest.answering.goals import Verdict
from loadtest.answering.mixes import DNSPERF, DRAIN, Mix
from loadtest.answering.results import Results
from loadtest.bench import Rows, listed, markdown, plain
from loadtest.programs import ECHO, TITLES

NAME: Final = "bench"  # in the marks of the page
Render = Callable[[Rows], str]
_HEAD = [
    "server", "drain µs", "least", "/ echo", "dnsperf µs", "/ echo", "answers/s", "p50 µs", "p99 µs", "octets",
    "remarks",
]  # fmt: skip


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
        rows.append([
            goal.what, _number(verdict.ratio), verdict.method or "", _number(verdict.beside), _number(goal.limit),
            _number(goal.aim), verdict.word,
        ])  # fmt: skip
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _integer(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def text(results: Results, mixes: Sequence[Mix], verdicts: Sequence[Verdict]) -> str:
    """All tables for a terminal."""
    parts = [_titled(f"{mix.key}: {mix.title}", results, mix, plain) for mix in mixes]
    if verdicts:
        parts.append("goals\n" + plain(goal_rows(verdicts)))
    return "\n".join(part for part in parts if part)


def section(
    results: Results,
    mixes: Sequence[Mix],
    verdicts: Sequence[Verdict],
    context: Mapping[str, str],
) -> str:
    """The section between the marks of the page."""
    parts = ["The figures are those of this run:", listed(context)]
    if verdicts:
        parts.append("### Goals\n\n" + markdown(goal_rows(verdicts)).rstrip())
    for mix in mixes:
        title = f"### {mix.key}\n\n{mix.title[0].upper()}{mix.title[1:]}.\n"
        parts.append(_titled(title, results, mix, markdown).rstrip())
    return "\n\n".join(part for part in parts if part)


def _titled(title: str, results: Results, mix: Mix, render: Render) -> str:
    rows = mix_rows(results, mix)
    return f"{title}\n{render(rows)}" if len(rows) > 1 else ""
