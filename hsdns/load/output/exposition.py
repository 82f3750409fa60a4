"""The results of a run so far, as metrics for Prometheus.

Path: cli/export.py makes a Picture of the results -> here -> prometheus-client -> a file, or a Pushgateway.
Rule 1: counters and histograms only grow during a run, and start at zero in the next one.
Rule 2: a Picture does not change: another thread may write or send it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hsdns.load.histogram import Histogram, highest_in, refusal
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


def _families(
    servers: Mapping[str, Results],
    seconds: float,
    limits: Mapping[str, Mapping[str, bool | None]] | None,
) -> Iterator[Metric]:
    from prometheus_client.core import (  # noqa: PLC0415 - 45 ms that few runs need
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    wholes = {name: results.whole() for name, results in servers.items()}

    def counter(name: str, help_text: str, labels: Sequence[str] = ()) -> CounterMetricFamily:
        return CounterMetricFamily(name, help_text, labels=(LABEL, *labels))

    queries = counter("hsdns_load_queries_total", "Queries by what became of them.", ("result",))
    answers = counter("hsdns_load_answers_total", "Answers by rcode.", ("rcode",))
    truncated = counter("hsdns_load_truncated_answers_total", "Answers that were truncated.")
    verdicts = counter("hsdns_load_verdicts_total", "Answers by verdict.", ("verdict",))
    latency = HistogramMetricFamily(
        "hsdns_load_latency_seconds",
        "From when a query was due until it was answered.",
        labels=(LABEL,),
    )
    lateness = HistogramMetricFamily(
        "hsdns_load_lateness_seconds",
        "From when a query was due until it was sent.",
        labels=(LABEL,),
    )
    refused = GaugeMetricFamily(
        "hsdns_load_generator_limited",
        "1 if the generator was the limit, so that some latencies say nothing about the server.",
        labels=(LABEL,),
    )
    stalest = GaugeMetricFamily(
        "hsdns_load_stale_age_seconds", "The age of the stalest answer.", labels=(LABEL,)
    )
    elapsed = GaugeMetricFamily("hsdns_load_seconds", "How long the run has gone on.")
    elapsed.add_metric((), seconds)
    for name, whole in wholes.items():
        for result, count in (
            ("answered", whole.counts.answered),
            ("lost", whole.counts.lost),
            ("not_sent", whole.counts.not_sent),
        ):
            queries.add_metric((name, result), count)
        whole.counts.finish()
        for rcode, count in whole.counts.rcodes.items():
            answers.add_metric((name, rcode), count)
        truncated.add_metric((name,), whole.counts.truncated)
        latency.add_metric((name,), buckets(whole.slots), sum_of(whole.slots))
        lateness.add_metric((name,), buckets(whole.late_slots), sum_of(whole.late_slots))
        refused.add_metric((name,), float(_is_limited(whole)))
        if whole.verdicts:
            for word in VERDICTS:
                verdicts.add_metric((name, word), whole.verdicts.get(word, 0))
            stalest.add_metric((name,), whole.worst_age_ms / 1000)
    yield from (elapsed, queries, answers, truncated, latency, lateness, refused)
    if verdicts.samples:
        yield from (verdicts, stalest)
    if limits:
        met = GaugeMetricFamily(
            "hsdns_load_limit_met",
            "1 if a limit of -fail-if is met, 0 if it holds, NaN if that could not be told.",
            labels=(LABEL, "limit"),
        )
        for name, found in limits.items():
            for limit, is_met in found.items():
                met.add_metric((name, limit), float("nan") if is_met is None else float(is_met))
        yield met


def _is_limited(whole: Second) -> bool:
    counts, measured = whole.counts, measured_of(whole)
    return bool(refusal(measured.latency, measured.lateness, counts.sent, counts.not_sent))
