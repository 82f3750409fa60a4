"""How long changes took to show, as counts that can be added, and as the part of a report that is made of them.

Path: propagation_report.py counts -> here -> report.py; merge.py adds.
Rule 1: a percentile stands only if there were enough changes that one of them is above it: a hundred for p99.
Rule 2: a change is counted by each generator that followed it, because from each of them it may show at another time.
Rule 3: counts of two generators are added without loss (`merge`); of their events there are MOST_EVENTS at most.
"""

from __future__ import annotations

from typing import Final

import msgspec

from hsdns.load.figures import NOTHING, PERCENTS, Percentile, name_of
from hsdns.load.histogram import Histogram

FEW: Final = "few"
NEVER: Final = "never"
MOST_EVENTS: Final = 2000  # that a report has
Slots = list[tuple[int, int]]


class EventReport(msgspec.Struct, frozen=True):
    """A change that was followed: when it was written (seconds after the begin), and milliseconds from then on.

    `seen_ms` is when the generator's watch had it, `first_new_ms` and `last_old_ms` are None for never; `resolution_ms`
    is the time between the questions around the first new answer.
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
    """How long changes took to show.  `first_new` is of those that add records, `last_old` of those that remove some.

    `left_out` were followed for too short a time to say anything; `events` are some of all, evenly chosen.  Slots are
    those of the percentiles.
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
        """Add those of another generator."""
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
        """The part of a report that says them."""
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
    """The counts that a report was made of, but for the events that it leaves out."""
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
    """By time, and where that is the same in an order that does not depend on who followed them."""
    return event.at_s, msgspec.json.encode(event)


def _figures(histogram: Histogram, never: int = 0) -> list[Percentile]:
    """Percentiles, of which `never` are slower than any."""
    whole, figures = histogram.total + never, []
    for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS, never), strict=True):
        if percent < 100 and round(whole * (100 - percent), 6) < 100:
            figures.append(Percentile(name_of(percent), None, FEW))
        else:
            why = "" if us is not None else NEVER if never else NOTHING
            figures.append(Percentile(name_of(percent), us, why))
    return figures
