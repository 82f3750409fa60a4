"""Query rates by type and rcode.

Path: picture.py -> here -> the metrics, or query_tap.py.
Rule: if every server block has `prometheus`, the rates come from its counters, which count every query.  Otherwise they
      come from the tap: the total is exact, but if the tap took only a part of the queries, types and rcodes are
      estimated from a fair sample.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hsdns.metrics import Labels
from hsdns.plugins.prometheus import Prometheus
from hsdns.server.control.door import Door
from hsdns.server.query_tap import SeenQuery

NO_REPLY: Final = "no reply"  # in place of an rcode
_HITS: Final = ("hit", "region")  # results of hsdns_table_lookups_total
_SERIES: Final = (
    ("coredns_dns_requests_total", "type"),
    ("coredns_dns_responses_total", "rcode"),
    ("hsdns_table_lookups_total", "result"),
)


class _Counts(NamedTuple):
    """The number of all queries since the start: by the labels of _SERIES, and by the tap."""

    by_type: Mapping[str, float]
    by_rcode: Mapping[str, float]
    lookups: Mapping[str, float]
    seen: int
    position: int


class Rates:
    """Compares the counts with those of the previous call."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._at = door.clock()
        self._before = self._count()

    def take(self) -> dict[str, Any]:
        """The rates per second since the last call; `exact` says whether every query was counted."""
        now, before = self._door.clock(), self._before
        seconds = max(now - self._at, 0.001)
        self._at, self._before = now, self._count()
        new = self._before
        hits = sum(new.lookups.get(each, 0) - before.lookups.get(each, 0) for each in _HITS)
        if self._is_counted():
            by_type = _less(new.by_type, before.by_type)
            by_rcode = _less(new.by_rcode, before.by_rcode)
            total, is_exact = sum(by_type.values()), True
        else:
            found = list(self._door.queries.since(before.position))
            by_type, by_rcode = _sum(found)
            total, is_exact = float(new.seen - before.seen), all(each.weight == 1 for each in found)
        return {
            "queries_per_second": round(total / seconds, 2),
            "table_share": round(min(hits / total, 1.0), 4) if total else None,
            "by_type": _each_second(by_type, seconds),
            "by_rcode": _each_second(by_rcode, seconds),
            "exact": is_exact,
        }

    def _is_counted(self) -> bool:
        blocks = self._door.serving().configuration.blocks
        return all(any(isinstance(each, Prometheus) for each in block.plugins) for block in blocks)

    def _count(self) -> _Counts:
        metrics, queries = self._door.metrics, self._door.queries
        metrics.fold()
        found: dict[str, Tally[str]] = {name: Tally() for name, _ in _SERIES}
        for metric in metrics:
            if metric.name in found:
                label = dict(_SERIES)[metric.name]
                _add(found[metric.name], metric.values, metric.labels.index(label))
        queries.collect()
        by_type, by_rcode, lookups = found.values()
        return _Counts(by_type, by_rcode, lookups, queries.seen, queries.collected)


def _add(tally: Tally[str], values: Mapping[Labels, Any], place: int) -> None:
    for labels, count in values.items():
        tally[labels[place]] += count


def _less(new: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {key: count - before.get(key, 0) for key, count in new.items()}


def _sum(found: list[SeenQuery]) -> tuple[dict[str, float], dict[str, float]]:
    by_type: dict[str, float] = {}
    by_rcode: dict[str, float] = {}
    for each in found:
        rcode = each.rcode or NO_REPLY
        by_type[each.type] = by_type.get(each.type, 0.0) + each.weight
        by_rcode[rcode] = by_rcode.get(rcode, 0.0) + each.weight
    return by_type, by_rcode


def _each_second(counts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Rates, the highest first."""
    found = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {key: round(count / seconds, 2) for key, count in found if count}
