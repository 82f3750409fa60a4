"""The lookups of pods in a report, as values.

Path: results.py -> here -> report.py; lookup_text.py writes them as text.
Rule 1: the latency of a lookup includes the generator's lateness, like that of a query, and the same rule decides
        whether it is stated (figures.py).
Rule 2: `slots` are the slots of the histograms with their counts, so that reports can be added without loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hsdns.load.figures import Figure, latency_figures, lateness_figures, name_of
from hsdns.load.histogram import Histogram, Slots
from hsdns.load.lookups import ENDS, UNFINISHED, LookupPart, Lookups


class LookupPercentile(msgspec.Struct, frozen=True):
    """Like Percentile (figures.py); `lost` means a lookup that had not finished at the end."""

    name: str
    us: int | None
    why: str = ""


class LookupPartReport(msgspec.Struct, frozen=True):
    """A part of the lookups: how they ended, and their queries.

    `wasted` queries were for another name than the intended one, `again` counts queries repeated in the same lookup,
    `over_tcp` those over TCP.  `median_queries` and `most_queries` are per lookup.
    """

    name: str
    ends: dict[str, int]
    queries: int
    wasted: int
    again: int
    over_tcp: int
    median_queries: int
    most_queries: int
    latency: list[LookupPercentile]
    slots: Slots
    query_slots: Slots


class LookupsReport(msgspec.Struct, frozen=True):
    """All lookups, in total and in parts; `lateness` runs from when one was due until the generator began it."""

    whole: LookupPartReport
    by_resolver: list[LookupPartReport]
    by_form: list[LookupPartReport]
    lateness: list[LookupPercentile]
    lateness_slots: Slots


def lookups_report(found: Lookups, lateness: Histogram, *, refused: bool) -> LookupsReport | None:
    """The report; None without lookups.

    `lateness` is that of the queries, which decides whether a latency is stated; `refused`: none is stated.
    """
    whole = found.whole()
    if not whole.ends:
        return None

    def part(name: str, each: LookupPart) -> LookupPartReport:
        figures = latency_figures(each.latency, each.ends[UNFINISHED], lateness, refused=refused)
        return LookupPartReport(
            name,
            {end: each.ends[end] for end in ENDS},
            each.sent,
            each.wasted,
            each.again,
            each.over_tcp,
            each.queries.percentile(50) or 0,
            each.queries.highest or 0,
            _percentiles(figures),
            each.latency.pairs(),
            each.queries.pairs(),
        )

    return LookupsReport(
        part("", whole),
        [part(*each) for each in sorted(found.by_resolver.items())],
        [part(*each) for each in sorted(found.by_form.items())],
        _percentiles(lateness_figures(found.lateness)),
        found.lateness.pairs(),
    )


def lookups_of(report: LookupsReport) -> Lookups:
    """The lookups that a report was made from."""
    found = Lookups()
    found.by_resolver = {each.name: _counted(each) for each in report.by_resolver}
    found.by_form = {each.name: _counted(each) for each in report.by_form}
    found.lateness = Histogram(report.lateness_slots)
    return found


def _counted(report: LookupPartReport) -> LookupPart:
    found = LookupPart()
    found.ends.update({end: count for end, count in report.ends.items() if count})
    found.latency = Histogram(report.slots)
    found.queries = Histogram(report.query_slots)
    found.sent, found.wasted = report.queries, report.wasted
    found.again, found.over_tcp = report.again, report.over_tcp
    return found


def _percentiles(figures: Sequence[Figure]) -> list[LookupPercentile]:
    return [LookupPercentile(name_of(each.percent), each.us, each.why) for each in figures]
