"""The report of a run as PerfData, the JSON that perfdash of Kubernetes draws.

Path: report.py -> here -> cli/reports.py prints it.
Rule 1: an item has the figures of one kind of one server.  All items have all labels, because perfdash shows what has
        a value of each: `Metric` (latency, queries ...), `Server`, and `Queries` (those of one kind, or all).
Rule 2: a figure that is refused or lost is skipped: it is no number, and perfdash leaves a gap.
Source: kubernetes/perf-tests, clusterloader2/pkg/measurement/util/perftype.go and perfdash/parser.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hsdns.load.histogram import Percentile
from hsdns.load.report import Report
from hsdns.load.results import ServerReport

VERSION: Final = "v1"
ALL: Final = "all"
Item = dict[str, Any]


def perfdata(report: Report) -> dict[str, Any]:
    """The document, as objects that module json can write."""
    items = [item for server in report.servers for item in _items(server)]
    return {"version": VERSION, "dataItems": [each for each in items if each["data"]]}


def _items(server: ServerReport) -> Iterator[Item]:
    counts, name = server.counts, server.name
    yield _times(server.latency, "latency", name)
    yield _times(server.lateness, "lateness", name)
    for kind in server.kinds:
        yield _times(kind.latency, "latency", name, f"{kind.group} {kind.type}")
    words = ("due", "answered", "lost", "not_sent", "truncated")
    yield _counts({each: getattr(counts, each) for each in words}, "queries", name)
    yield _counts(counts.rcodes, "answers", name)
    if server.verdicts is not None:
        yield _counts(server.verdicts.counts, "verdicts", name)
    if server.propagation is not None:
        yield _times(server.propagation.first_new, "first_new_answer", name)
        yield _times(server.propagation.last_old, "last_old_answer", name)


def _times(figures: Sequence[Percentile], metric: str, server: str, queries: str = ALL) -> Item:
    """Percentiles in milliseconds, named as clusterloader2 does: Perc50."""
    found = {each.name.replace("p", "Perc", 1): each.us / 1000 for each in figures if each.us is not None}  # fmt: skip
    return _item(found, "ms", metric, server, queries)


def _counts(found: Mapping[str, float], metric: str, server: str) -> Item:
    return _item(found, metric, metric, server, ALL)


def _item(data: Mapping[str, float], unit: str, metric: str, server: str, queries: str) -> Item:
    labels = {"Metric": metric, "Server": server, "Queries": queries}
    return {"data": data, "unit": unit, "labels": labels}
