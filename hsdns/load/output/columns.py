"""The seconds of a server's report in columns, for plots.

Path: page.py -> here -> plots.py.
Rule: there are at most MOST columns, and fewer if many servers share a page; a column has the sums of its seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hsdns.load.histogram import Histogram, Percentile
from hsdns.load.report import SecondReport, ServerReport
from hsdns.load.verify.judge import RIGHT, UNDECIDED

MOST: Final = 150
MOST_TOGETHER: Final = 300  # for all servers on a page
LOST: Final = "lost"
KNOWN: Final = ("NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", LOST)  # with separate colours
OTHER: Final = "other"
BAD: Final = ("stale", "early", "missing", "extra", "wrong", UNDECIDED)
SHOWN: Final = (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))  # percentiles, and their classes


class Column(NamedTuple):
    """Seconds that are drawn together; rates are per second."""

    first: int
    seconds: int
    rcodes: dict[str, float]
    latency: Histogram
    figures: dict[str, int | None]  # p50, p99, p99.9, and the p99 of the lateness as "late"
    verdicts: dict[str, float]
    worst_age_ms: float
    changes: float


def columns(report: ServerReport, most: int = MOST) -> list[Column]:
    """The seconds of a report, in at most `most` columns without gaps."""
    if not report.per_second:
        return []
    last = report.per_second[-1].second + 1
    width = -(-last // most)
    parts: list[list[SecondReport]] = [[] for _ in range(-(-last // width))]
    for each in report.per_second:
        parts[each.second // width].append(each)
    length = min(report.seconds, last) if report.seconds else last
    found = []
    for number, part in enumerate(parts):
        # The last second of a run may be shorter than one.
        seconds = max(min(width, length - number * width), 0.1)
        found.append(_column(number * width, width, seconds, part))
    return found


def _column(first: int, width: int, seconds: float, part: Sequence[SecondReport]) -> Column:
    rcodes: dict[str, float] = dict.fromkeys((*KNOWN, OTHER), 0.0)
    verdicts: dict[str, float] = dict.fromkeys(BAD, 0.0)
    latency = Histogram()
    for each in part:
        for rcode, count in each.counts.rcodes.items():
            rcodes[rcode if rcode in KNOWN else OTHER] += count / seconds
        rcodes[LOST] += each.counts.lost / seconds
        for word, count in each.verdicts.items():
            if word != RIGHT:
                verdicts[word] += count / seconds
        latency.merge(Histogram(each.slots))
    figures = {name: _worst([each.latency for each in part], name) for name, _ in SHOWN}
    figures["late"] = _worst([each.lateness for each in part], "p99")
    worst_age = max((each.worst_age_ms for each in part), default=0.0)
    changes = sum(each.changes for each in part) / seconds
    return Column(first, width, rcodes, latency, figures, verdicts, worst_age, changes)


def _worst(found: Sequence[Sequence[Percentile]], name: str) -> int | None:
    """The highest figure of the seconds; None if one of them has none."""
    values = [each.us for figures in found for each in figures if each.name == name]
    known = [each for each in values if each is not None]
    return max(known, default=None) if len(known) == len(values) else None


def span(column: Column) -> str:
    """The seconds of a column, as text."""
    end = column.first + column.seconds
    return f"{column.first} s" if column.seconds == 1 else f"{column.first} to {end} s"
