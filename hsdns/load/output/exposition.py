"""The results of a run so far, as metrics for Prometheus.

Path: cli/reports.py makes a Picture of the results -> here -> prometheus-client -> a file, or a Pushgateway.
Rule 1: counters and histograms only grow during a run, and start at zero in the next one.
Rule 2: a Picture does not change: another thread may write or send it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from hsdns.load.histogram import LATE, Histogram, highest_in
from hsdns.load.results import Results, Second, measured_of
from hsdns.load.verify.judge import VERDICTS

if TYPE_CHECKING:
    from prometheus_client.core import Metric

BOUNDS: Final[tuple[int, ...]] = tuple(
    base * 10**power for power in range(2, 7) for base in (1, 2, 5)
)  # microseconds: 100 us to 5 s
LABEL: Final = "server"


class Picture:
    """The metrics of servers by name, `seconds` after the begin; a collector of prometheus-client.

    `limits`: whether each limit is met, by its text, once known.
    """

    def __init__(
        self,
        servers: Mapping[str, Results],
        seconds: float,
        limits: Mapping[str, Mapping[str, bool | None]] | None = None,
    ) -> None:
        self._families = list(_families(servers, seconds, limits))

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        yield from self._families


def buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Upper bounds in seconds, as texts, with the number of values at or below them."""
    found, passed = [], 0
    slots = histogram.pairs()
    at = 0
    for bound in BOUNDS:
        while at < len(slots) and highest_in(slots[at][0]) <= bound:
            passed += slots[at][1]
            at += 1
        found.append((f"{bound / 1e6:g}", float(passed)))
    return [*found, ("+Inf", float(histogram.total))]


def sum_of(histogram: Histogram) -> float:
    """The sum of all values in seconds, each at the upper end of its slot."""
    return sum(highest_in(slot) * count for slot, count in histogram.items()) / 1e6


def _of_verdicts(whole: Second) -> dict[str, float]:
    return {word: whole.verdicts.get(word, 0) for word in VERDICTS} if whole.verdicts else {}


def _ages(whole: Second) -> dict[str, float]:
    return {"": whole.worst_age_ms / 1000} if whole.verdicts else {}


def _limited(whole: Second) -> dict[str, float]:
    return {"": float(any(each.why == LATE for each in measured_of(whole).latency))}


# A metric, its kind and help, the second label, and its values by that; "" for no such label.
Values = Callable[[Second], Mapping[str, Any]]
_FAMILIES: Final[tuple[tuple[str, str, str, str, Values], ...]] = (
    ("hsdns_load_queries_total", "counter", "Queries by outcome.", "result",
     lambda whole: {word: getattr(whole.counts, word) for word in ("answered", "lost", "not_sent")}),
    ("hsdns_load_late_queries_total", "counter", "Queries that were sent late, whether answered or lost.", "",
     lambda whole: {"": whole.counts.late}),
    ("hsdns_load_answers_total", "counter", "Answers by rcode.", "rcode", lambda whole: whole.counts.rcodes),
    ("hsdns_load_truncated_answers_total", "counter", "Answers that were truncated.", "",
     lambda whole: {"": whole.counts.truncated}),
    ("hsdns_load_latency_seconds", "histogram", "From when a query was due until it was answered.", "",
     lambda whole: {"": whole.slots}),
    ("hsdns_load_service_seconds", "histogram", "From when a query was sent until it was answered.", "",
     lambda whole: {"": whole.service_slots}),
    ("hsdns_load_lateness_seconds", "histogram", "From when a query was due until it was sent.", "",
     lambda whole: {"": whole.late_slots}),
    ("hsdns_load_generator_limited", "gauge",
     "1 if the generator was the limit, so some latencies do not describe the server.", "", _limited),
    ("hsdns_load_verdicts_total", "counter", "Answers by verdict.", "verdict", _of_verdicts),
    ("hsdns_load_stale_age_seconds", "gauge", "The age of the stalest answer.", "", _ages),
)  # fmt: skip


def _families(
    servers: Mapping[str, Results],
    seconds: float,
    limits: Mapping[str, Mapping[str, bool | None]] | None,
) -> Iterator[Metric]:
    from prometheus_client import core  # noqa: PLC0415 - 45 ms that few runs need

    elapsed = core.GaugeMetricFamily("hsdns_load_seconds", "How long the run has gone on.")
    elapsed.add_metric((), seconds)
    yield elapsed
    wholes = {name: results.whole() for name, results in servers.items()}
    for whole in wholes.values():
        whole.counts.finish()
    for name, kind, help_text, label, values in _FAMILIES:
        of_kind = getattr(core, f"{kind.title()}MetricFamily")
        family = of_kind(name, help_text, labels=[LABEL, *filter(None, [label])])
        for server, whole in wholes.items():
            for word, value in values(whole).items():
                parts = (buckets(value), sum_of(value)) if kind == "histogram" else (value,)
                family.add_metric((server, *filter(None, [word])), *parts)
        if family.samples or values not in (_of_verdicts, _ages):
            yield family
    if limits:
        met = core.GaugeMetricFamily(
            "hsdns_load_limit_met",
            "1 if a limit of --fail-if is met, 0 if it holds, NaN if that is unknown.",
            labels=(LABEL, "limit"),
        )
        for name, found in limits.items():
            for limit, is_met in found.items():
                met.add_metric((name, limit), float("nan") if is_met is None else float(is_met))
        yield met
