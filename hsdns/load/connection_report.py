"""The connections of a load in a report, as values and as text.

Path: results.py -> here -> report.py, text.py.
Rule: set-ups are not in the figures of queries; a latency includes the wait for a set-up anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from hsdns.load.connection_facts import ConnectionCounts
from hsdns.load.figures import PERCENTS, name_of
from hsdns.load.histogram import Histogram, Slots


class SetupPercentile(msgspec.Struct, frozen=True):
    """p50 ... max of the set-ups, in microseconds; None if there are none."""

    name: str
    us: int | None


class ConnectionsReport(msgspec.Struct, frozen=True):
    """Connections of a load, or those for truncated answers over UDP.

    `not_opened`, `ended` and `without_answer` (queries) are counts by reason.  `asked_again`: queries whose connection
    had ended; `late`: replies after the timeout; `fell`: truncated answers over UDP.  `slots` are the histogram of the
    set-ups.
    """

    opened: int
    most_open: int
    not_opened: dict[str, int]
    ended: dict[str, int]
    without_answer: dict[str, int]
    asked_again: int
    late: int
    fell: int
    setup: list[SetupPercentile]
    slots: Slots


def connections_report(counts: ConnectionCounts) -> ConnectionsReport | None:
    """The report; None if there was no connection."""
    if not counts.opened and not counts.not_opened and not counts.fell:
        return None
    figures = zip(PERCENTS, counts.setup.percentiles(PERCENTS), strict=True)
    return ConnectionsReport(
        counts.opened,
        counts.most_open,
        _sorted(counts.not_opened),
        _sorted(counts.ended),
        _sorted(counts.failed),
        counts.again,
        counts.late,
        counts.fell,
        [SetupPercentile(name_of(percent), us) for percent, us in figures],
        counts.setup.pairs(),
    )


def connection_counts(report: ConnectionsReport) -> ConnectionCounts:
    """The counts that a report was made from."""
    found = ConnectionCounts()
    found.setup = Histogram(report.slots)
    found.most_open = report.most_open
    found.not_opened.update(report.not_opened)
    found.ended.update(report.ended)
    found.failed.update(report.without_answer)
    found.again, found.late, found.fell = report.asked_again, report.late, report.fell
    return found


def reasons(counts: Mapping[str, int]) -> str:
    """Counts by reason, in words."""
    return ", ".join(f"{why} {count}" for why, count in counts.items())


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
