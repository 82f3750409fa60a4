"""How long changes took to show, as counts that can be added, and as the part of a report made from them.

Path: propagation_report.py counts -> here -> report.py; merge.py adds.
Rule 1: a percentile is stated only if there are enough changes for one to be above it: a hundred for p99.
Rule 2: each generator that followed a change counts it, because it may show at different times to each.
Rule 3: counts of two generators are added without loss (`merge`); at most MOST_EVENTS of their events are kept.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hsdns.load.figures import NOTHING, PERCENTS, Percentile, name_of
from hsdns.load.histogram import Histogram, Slots

FEW: Final = "few"
NEVER: Final = "never"
MOST_EVENTS: Final = 2000  # in a report


class EventReport(msgspec.Struct, frozen=True):
    """A change that was followed: when it was written (seconds after the begin), and milliseconds from then on.

    `seen_ms` is when the generator's watch saw it, `first_new_ms` and `last_old_ms` are None for never; `resolution_ms`
    is the time between the probes around the first new answer.
    """

    at_s: float
    name: str
    type: str
    adds: bool
    removes: bool
    seen_ms: float
    first_new_ms: float | None
    last_old_ms: float | None
    resolution_ms: float


class PropagationReport(msgspec.Struct, frozen=True):
    """How long changes took to show; `first_new` for changes that add records, `last_old` for those that remove some.

    `left_out` changes were followed for too short a time to count; `events` is an even selection.  Slots belong to the
    percentiles.
    """

    followed: int
    left_out: int
    never_new: int
    never_gone: int
    seen: list[Percentile]
    first_new: list[Percentile]
    last_old: list[Percentile]
    resolution: list[Percentile]
    events: list[EventReport]
    seen_slots: Slots
    first_new_slots: Slots
    last_old_slots: Slots
    resolution_slots: Slots


class PropagationCounts:
    """Changes that were followed; histograms in microseconds, without those that never showed."""

    def __init__(self) -> None:
        self.followed = 0
        self.left_out = 0
        self.never_new = 0
        self.never_gone = 0
        self.seen = Histogram()
        self.first_new = Histogram()
        self.last_old = Histogram()
        self.resolution = Histogram()
        self.events: list[EventReport] = []

    def merge(self, other: PropagationCounts) -> None:
        """Add the counts of another generator."""
        self.followed += other.followed
        self.left_out += other.left_out
        self.never_new += other.never_new
        self.never_gone += other.never_gone
        self.seen.merge(other.seen)
        self.first_new.merge(other.first_new)
        self.last_old.merge(other.last_old)
        self.resolution.merge(other.resolution)
        self.events += other.events

    def report(self) -> PropagationReport:
        """The part of a report with these counts."""
        events = sorted(self.events, key=_order)
        step = -(-len(events) // MOST_EVENTS) or 1
        return PropagationReport(
            self.followed,
            self.left_out,
            self.never_new,
            self.never_gone,
            _figures(self.seen),
            _figures(self.first_new, self.never_new),
            _figures(self.last_old, self.never_gone),
            _figures(self.resolution),
            events[::step],
            self.seen.pairs(),
            self.first_new.pairs(),
            self.last_old.pairs(),
            self.resolution.pairs(),
        )


def propagation_counts(report: PropagationReport) -> PropagationCounts:
    """The counts that a report was made from, except the events that it omits."""
    found = PropagationCounts()
    found.followed, found.left_out = report.followed, report.left_out
    found.never_new, found.never_gone = report.never_new, report.never_gone
    found.seen = Histogram(report.seen_slots)
    found.first_new = Histogram(report.first_new_slots)
    found.last_old = Histogram(report.last_old_slots)
    found.resolution = Histogram(report.resolution_slots)
    found.events = list(report.events)
    return found


def _order(event: EventReport) -> tuple[float, bytes]:
    """The sort key of an event: its time, then a value that does not depend on which generator followed it."""
    return event.at_s, msgspec.json.encode(event)


def _figures(histogram: Histogram, never: int = 0) -> list[Percentile]:
    """Percentiles; `never` more changes are slower than any."""
    whole, figures = histogram.total + never, []
    for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS, never), strict=True):
        if percent < 100 and round(whole * (100 - percent), 6) < 100:
            figures.append(Percentile(name_of(percent), None, FEW))
        else:
            why = "" if us is not None else NEVER if never else NOTHING
            figures.append(Percentile(name_of(percent), us, why))
    return figures
