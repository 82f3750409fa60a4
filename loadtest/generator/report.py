"""The table of the benchmark of load generators.

Path: measure.py -> here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

_COLUMNS = (
    "server", "generator", "queries/s", "CPU, us a query", "ratio to dnsperf", "lost", "p50", "p99", "late by p50",
    "p99", "p99.9",
)  # fmt: skip


class Row(NamedTuple):
    """One generator against one server at one rate, in one turn; times in microseconds, None if unknown."""

    server: str
    generator: str
    rate: int
    reached: float  # queries a second
    cpu: float  # microseconds a query
    lost: int
    p50: float | None
    p99: float | None
    late_p50: float | None = None
    late_p99: float | None = None
    late_p999: float | None = None


def combined(turns: Sequence[Row]) -> Row:
    """The median of each figure over some turns; a figure that is unknown in a turn is unknown."""
    first = turns[0]

    def of(values: Sequence[float | None]) -> float | None:
        told = [each for each in values if each is not None]
        return median(told) if len(told) == len(values) else None

    return Row(
        first.server,
        first.generator,
        first.rate,
        median(each.reached for each in turns),
        median(each.cpu for each in turns),
        round(median(each.lost for each in turns)),
        of([each.p50 for each in turns]),
        of([each.p99 for each in turns]),
        of([each.late_p50 for each in turns]),
        of([each.late_p99 for each in turns]),
        of([each.late_p999 for each in turns]),
    )


def table(rows: Sequence[Row], reference: str) -> str:
    """The rows as a table of Markdown, with the ratio of CPU time to the row of `reference` at the same rate."""
    peers = {(each.server, each.rate): each.cpu for each in rows if each.generator == reference}
    lines = [_line(_COLUMNS), _line(["---", "---", *["---:"] * (len(_COLUMNS) - 2)])]
    for each in rows:
        peer = peers.get((each.server, each.rate))
        times = (each.p50, each.p99, each.late_p50, each.late_p99, each.late_p999)
        lines.append(
            _line([
                each.server,
                each.generator,
                f"{each.reached:,.0f}",
                f"{each.cpu:.1f}",
                f"{each.cpu / peer:.2f}" if peer and each.rate else "-",
                str(each.lost),
                *("-" if time is None else _time(time) for time in times),
            ])
        )  # fmt: skip
    return "\n".join(lines)


def lateness_told(
    rows: Sequence[Row], limits: Mapping[tuple[str, int], float]
) -> tuple[list[str], bool]:
    """Lines about the limits of the p99.9 of the lateness, by generator and rate, and whether all hold.

    Other work of the machine makes a generator late, whichever server answers; so the server with the least lateness
    counts.
    """
    lines, all_hold = [], True
    for (generator, rate), limit in limits.items():
        found = [
            (each.late_p999, each.server)
            for each in rows
            if (each.generator, each.rate) == (generator, rate) and each.late_p999 is not None
        ]
        if not found:
            lines.append(f"NOT MEASURED: {generator} at {rate:,}/s")
            all_hold = False
            continue
        late, server = min(found)
        holds = late <= limit
        all_hold &= holds
        lines.append(
            f"{'holds' if holds else 'DOES NOT HOLD'}: {generator} at {rate:,}/s late by {_time(late)} at p99.9"
            f" (limit {_time(limit)}; with {server})"
        )
    return lines, all_hold


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _time(us: float) -> str:
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.1f} ms"
