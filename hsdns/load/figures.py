"""The percentiles of a run, and which of them are refused because the generator was the limit.

Path: results.py -> here -> report.py, thresholds.py, live.py.
Rule 1: a latency includes the generator's lateness.  A percentile is stated only if the same percentile of the lateness
        is at most half of it, or at most TRIFLE.
Rule 2: a lost query counts as slower than any answered one.
Rule 3: if this machine sent less than the share ENOUGH of what was due, the rate was not the planned one, and no
        latency is stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hsdns.load.histogram import Histogram

PERCENTS: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
TRIFLE: Final = 50  # microseconds
ENOUGH: Final = 0.99

LOST: Final = "lost"
LATE: Final = "generator"
NOTHING: Final = "none"


class Figure(NamedTuple):
    """A percentile; `us` is None for the reason `why`: LOST, LATE (refused) or NOTHING (no query)."""

    percent: float
    us: int | None
    why: str = ""


class Percentile(msgspec.Struct, frozen=True):
    """`name` is p50 ... p99.99 or max; `why` there is none: lost, generator (the limit), few, never, none."""

    name: str
    us: int | None
    why: str = ""


def name_of(percent: float) -> str:
    """The name of a percentile: p50, p99.9, max."""
    return "max" if percent == 100 else f"p{percent:g}"


def lateness_figures(lateness: Histogram) -> list[Figure]:
    """The percentiles of the generator's own lateness."""
    return [
        Figure(percent, us, "" if us is not None else NOTHING)
        for percent, us in zip(PERCENTS, lateness.percentiles(PERCENTS), strict=True)
    ]


def latency_figures(
    latency: Histogram, lost: int, lateness: Histogram, *, refused: bool = False
) -> list[Figure]:
    """The percentiles of a latency; `refused`: none of them is stated."""
    late = lateness.percentiles(PERCENTS)
    found = []
    for percent, us, own in zip(PERCENTS, latency.percentiles(PERCENTS, lost), late, strict=True):
        if us is None:
            found.append(Figure(percent, None, LOST if lost else NOTHING))
        elif refused or (own is not None and own > TRIFLE and own * 2 > us):
            found.append(Figure(percent, None, LATE))
        else:
            found.append(Figure(percent, us))
    return found


def us_to_text(us: float) -> str:
    """Microseconds as text with three digits, in a suitable unit."""
    for unit, size in (("s", 1_000_000.0), ("ms", 1000.0)):
        if us >= size:
            value = us / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{us:.0f} us"


def all_sent(sent: int, not_sent: int) -> bool:
    """Whether enough of what was due was sent."""
    return sent >= (sent + not_sent) * ENOUGH


def refusal(figures: Sequence[Figure], lateness: Sequence[Figure], sent: int, not_sent: int) -> str:
    """A sentence about why some latencies are refused; "" if all are stated."""
    if not all_sent(sent, not_sent):
        return (
            f"the generator was the limit: this machine could not send {not_sent} of {sent + not_sent} queries that "
            "were due, so no latency of this run stands; give a lower -rate, or run it on a machine of its own"
        )
    refused = [figure.percent for figure in figures if figure.why == LATE]
    if not refused:
        return ""
    own = next(each.us for each in lateness if each.percent == refused[0]) or 0
    return (
        f"the generator was the limit: it was late by {us_to_text(own)} at {name_of(refused[0])}, so the latency at "
        f"{', '.join(map(name_of, refused))} would be its own and is left out; "
        "give a lower -rate, or run it on a machine of its own"
    )
