"""The lookups of pods as text, for a terminal and for a page.

Path: lookup_report.py -> here -> text.py, topics.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.load.figures import Percentile
from hsdns.load.lookup_report import LookupPartReport, LookupPercentile, LookupsReport
from hsdns.load.lookups import FAILED, FOUND, NONE, UNFINISHED
from hsdns.load.words import duration, percentiles, share

_SHOWN: Final = ("p50", "p99", "max")
HEAD: Final = (
    "",
    "lookups",
    "found",
    "none",
    "failed",
    "queries",
    "for other names",
    "again",
    "TCP",
    "most",
)


def lookup_lines(found: LookupsReport) -> Iterator[tuple[str, str]]:
    """Rows with a label, which is "" if a row continues the one before."""
    whole = found.whole
    yield "lookups", f"{_ends(whole)}; {_queries(whole)}"
    yield "", percentiles(_figures(whole.latency))
    yield "", f"begun late by {percentiles(_figures(found.lateness))}"
    for parts in (found.by_resolver, found.by_form):
        width = max(len(each.name) for each in parts)
        for each in parts:
            figures = percentiles(_figures(each.latency), _SHOWN)
            yield "", f"{each.name.ljust(width)}  {_ends(each)}, {figures}; {_queries(each)}"


def lookup_rows(parts: Sequence[LookupPartReport]) -> list[tuple[object, ...]]:
    """The rows of a table with the columns HEAD and the names of the percentiles."""
    return [
        (
            each.name or "all",
            _count(each),
            each.ends[FOUND],
            each.ends[NONE],
            each.ends[FAILED] + each.ends[UNFINISHED],
            each.queries,
            each.wasted,
            each.again,
            each.over_tcp,
            each.most_queries,
            *map(duration, _figures(each.latency)),
        )
        for each in parts
    ]


def _count(part: LookupPartReport) -> int:
    return sum(part.ends.values())


def _ends(part: LookupPartReport) -> str:
    words = [str(_count(part))]
    words += [
        f"{share(part.ends[end], _count(part))} {word}"
        for end, word in (
            (NONE, "without addresses"),
            (FAILED, "failed"),
            (UNFINISHED, "unfinished"),
        )
        if part.ends[end]
    ]
    return ", ".join(words)


def _queries(part: LookupPartReport) -> str:
    words = [f"{part.queries} queries", f"{share(part.wasted, part.queries)} for other names"]
    words += [
        f"{count} {word}"
        for count, word in ((part.again, "sent again"), (part.over_tcp, "over TCP"))
        if count
    ]
    words.append(f"median {part.median_queries}, at most {part.most_queries} each")
    return ", ".join(words)


def _figures(found: Sequence[LookupPercentile]) -> list[Percentile]:
    return [Percentile(each.name, each.us, each.why) for each in found]
