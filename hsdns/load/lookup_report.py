"""The lookups of pods in a report, as values and as text.

Path: report.py and text.py -> here.
Rule 1: a latency here has the generator's lateness in it as that of a query has, and stands under the same rule
        (figures.py).
Rule 2: `slots` are those of the histograms with their counts, so that reports can be added without loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hsdns.load.figures import latency_figures, lateness_figures
from hsdns.load.histogram import Histogram
from hsdns.load.lookups import ENDS, FAILED, FOUND, NONE, UNFINISHED, LookupPart, Lookups
from hsdns.load.percentile import Percentile, percentiles_of, row_of

Slots = list[tuple[int, int]]


class LookupPartReport(msgspec.Struct, frozen=True):
    """Some lookups: how they ended, and their queries.

    `wasted` queries were for another name than the one that is meant, `again` ones were sent before in the same lookup,
    `over_tcp` went over TCP.  `most_queries` is of one lookup.
    """

    name: str
    ends: dict[str, int]
    queries: int
    wasted: int
    again: int
    over_tcp: int
    median_queries: int
    most_queries: int
    latency: list[Percentile]
    slots: Slots
    query_slots: Slots


class LookupsReport(msgspec.Struct, frozen=True):
    """All lookups, and in parts; `lateness` is from when one was due until the generator came to it."""

    whole: LookupPartReport
    by_resolver: list[LookupPartReport]
    by_form: list[LookupPartReport]
    lateness: list[Percentile]
    lateness_slots: Slots


def lookups_report(found: Lookups, *, refused: bool) -> LookupsReport | None:
    """The report; None without lookups.  `refused`: no latency stands."""
    whole = found.whole()
    if not whole.ends:
        return None

    def part(name: str, each: LookupPart) -> LookupPartReport:
        return _part(name, each, found.lateness, refused)

    return LookupsReport(
        part("", whole),
        [part(name, each) for name, each in sorted(found.by_resolver.items())],
        [part(name, each) for name, each in sorted(found.by_form.items())],
        percentiles_of(lateness_figures(found.lateness)),
        found.lateness.pairs(),
    )


def lookups_of(report: LookupsReport) -> Lookups:
    """What was counted, of a report."""
    found = Lookups()
    found.by_resolver = {each.name: _counted(each) for each in report.by_resolver}
    found.by_form = {each.name: _counted(each) for each in report.by_form}
    found.lateness = Histogram(report.lateness_slots)
    return found
