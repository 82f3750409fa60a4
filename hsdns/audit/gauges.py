"""The metrics of a continuous audit, for Prometheus.

Path: report.py -> here -> cli/audit_metrics.py.
Rule: the values are those of the last pass; a server or a verdict that no longer occurs has no value.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.audit.report import FIGURES, AuditReport
from hsdns.metrics import Registry

_SERVER = ("cluster", "server")


class Gauges:
    """The metrics, by cluster and server."""

    def __init__(self) -> None:
        self.registry = Registry()
        gauge = self.registry.gauge
        self._answers = gauge(
            "hsdns_audit_answers",
            "Answers of the last pass by verdict; all but right and undecided are findings.",
            (*_SERVER, "verdict"),
        )
        self._age = gauge(
            "hsdns_audit_worst_age_seconds",
            "How far the stalest answer of the last pass was behind the cluster.",
            _SERVER,
        )
        self._latency = gauge(
            "hsdns_audit_latency_seconds",
            "Latencies of the last pass; a quantile that a lost query has is left out.",
            (*_SERVER, "quantile"),
        )
        self._names = gauge("hsdns_audit_names", "Names asked for in the last pass.", ("cluster",))
        self._time = gauge(
            "hsdns_audit_last_pass_timestamp_seconds", "When the last whole pass ended."
        )
        self._failures = self.registry.counter(
            "hsdns_audit_failures_total",
            "Passes that could not be made: no cluster, or no server.",
        )

    def update(self, reports: Sequence[AuditReport], now: float) -> None:
        """Set the values from the reports of a pass that ended at `now`, in seconds since 1970."""
        for gauge in (self._answers, self._age, self._latency, self._names):
            gauge.values.clear()
        self._time.set(now)
        for report in reports:
            self._names.set(report.names + report.absent, (report.cluster,))
            for server in report.servers:
                labels = (report.cluster, server.server)
                for word, count in server.counts.items():
                    self._answers.set(count, (*labels, word))
                self._age.set(server.worst_age_ms / 1000, labels)
                for name, share in FIGURES:
                    us = server.latency_us.get(name)
                    if us is not None:
                        self._latency.set(us / 1e6, (*labels, f"{share / 100:g}"))

    def failed(self) -> None:
        """Count a pass that could not be made."""
        self._failures.inc()
