"""The tables of a run: on the terminal, and in the section "Under pressure" of docs/performance.md.

Path: cli.py -> here <- results.py, goals.py.
Rule 1: both have the same cells.  On the page each figure has a line and each server a column, so that a phone shows
        them without scrolling; figures that no server has are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loadtest.bench import Rows, listed, markdown, plain
from loadtest.pressure.goals import Verdict
from loadtest.pressure.results import MB, Honest, Outcome
from loadtest.pressure.rows import Row
from loadtest.programs import TITLES

NAME: Final = "bench-pressure"  # in the marks of the page
BUSY_US: Final = 5_000  # a p99 without pressure above this is not caused by the server
_HEAD = [
    "server", "answered", "cluster p99 ms", "cached p99 ms", "other p99 ms", "waking p99 ms", "event p50 ms",
    "event p99 ms", "worst", "/health", "TCP", "DoT", "DoH", "CPU s", "peak MB", "remarks",
]  # fmt: skip


def outcome_rows(outcomes: Sequence[Outcome]) -> Rows:
    """The table of one kind of pressure, with its header."""
    return [_HEAD, *map(_row, outcomes)]


def turned(rows: Rows) -> Rows:
    """A table with its lines as columns, without lines that have no figure."""
    lines = [list(line) for line in zip(*rows, strict=True)]
    return [lines[0], *(line for line in lines[1:] if any(line[1:]))]


def _row(it: Outcome) -> list[str]:
    if it.ended:
        return [TITLES[it.server], *[""] * (len(_HEAD) - 2), " ".join(it.ended.split())[:160]]
    events = it.events
    return [
        TITLES[it.server],
        f"{it.pressing.share:.0%}" if it.pressing.sent and not it.pressing.sent_away else "",
        *(_compared(it.clients.get(each)) for each in ("cluster", "external", "chained")),
        _ms(it.late or None),
        _ms(events and events.median),
        _ms(events and events.p99),
        _ms(events and events.worst),
        *(_percent(it.figure(f"{each} answered")) for each in ("health", "TCP", "DoT", "DoH")),
        f"{it.cpu:.1f}",
        f"{it.memory_peak / MB:.0f}",
        _remarks(it),
    ]


def _compared(honest: Honest | None) -> str:
    """The p99 without pressure and under it, and the share of answered queries unless all were."""
    if honest is None:
        return ""
    lost = "" if honest.pressed.share >= 0.9995 else f" ({honest.pressed.share:.0%})"
    return f"{_ms(honest.quiet.all_p99_us / 1e6)} → {_ms(honest.pressed.all_p99_us / 1e6)}{lost}"


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:,.{0 if seconds >= 0.1 else 1}f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _remarks(it: Outcome) -> str:
    said = []
    if it.pressing.sent < 0.95 * it.pressing.offered:
        said.append(f"{it.pressing.sent / it.pressing.offered:.0%} of the rate was reached")
    if any(each.quiet.all_p99_us > BUSY_US for each in it.honest):
        said.append("the machine was busy before")
    if it.pressing.sent_away:
        said.append(f"clients sent away {it.pressing.sent_away:,} times")
    said += [
        f"{it.judged[word]:,} of {sum(it.judged.values()):,} answers {word}"
        for word in ("stale", "wrong")
        if it.judged.get(word)
    ]
    if it.memory_after - it.memory_before > 10 * MB:
        said.append(f"memory +{(it.memory_after - it.memory_before) / MB:.0f} MB")
    return "; ".join(said)


def goal_rows(verdicts: Sequence[Verdict], *, failed_only: bool = False) -> Rows:
    """The table of the goals, with its header."""
    rows = [["row", "figure", "server", "measured", "", "limit", "verdict"]]
    rows += [
        [each.goal.row, each.goal.figure, TITLES[each.server], _number(each.value), each.goal.sense,
         _number(each.limit), each.word]
        for each in verdicts
        if not (failed_only and each.holds)
    ]  # fmt: skip
    return rows


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2f}"


def text(rows: Sequence[Row], outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> str:
    """All tables for a terminal, with all goals."""
    parts = [_table(row, outcomes, plain, "{key}: {title}\n") for row in rows]
    parts.append("goals\n" + plain(goal_rows(verdicts)))
    return "\n".join(part for part in parts if part)


def section(
    context: Mapping[str, str],
    rows: Sequence[Row],
    outcomes: Sequence[Outcome],
    verdicts: Sequence[Verdict],
) -> str:
    """The section between the marks of the page: all tables, and the goals that are not reached."""
    held = sum(each.holds for each in verdicts)
    parts = [listed(context)]
    parts.append(f"### Limits\n\n{held} of {len(verdicts)} limits hold.")
    if held < len(verdicts):
        parts.append(
            "Those that do not:\n\n" + markdown(goal_rows(verdicts, failed_only=True)).rstrip()
        )
    parts += [
        found.rstrip()
        for row in rows
        if (found := _table(row, outcomes, _turned_markdown, "### {key}\n\n{title}.\n\n"))
    ]
    return "\n\n".join(parts)


def _turned_markdown(rows: Rows) -> str:
    return markdown(turned(rows), range(len(rows)))


def _table(row: Row, outcomes: Sequence[Outcome], render: Callable[[Rows], str], title: str) -> str:
    found = [each for each in outcomes if each.row == row.key]
    if not found:
        return ""
    headline = row.title[0].upper() + row.title[1:]
    return title.format(key=row.key, title=headline) + render(outcome_rows(found))
