"""A metric: how old the answers are that rules of `fault` cause, compared with the newest state of the cluster.

Path: lifecycle.py makes one; before each scrape -> plugins/kubernetes/faults.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hsdns.assemble import Configuration
from hsdns.faults.rules import Rules
from hsdns.metrics import Registry
from hsdns.plugins.fault import Fault
from hsdns.plugins.kubernetes.faults import behind


class BehindGauge:
    """Measures the rules of all `configurations` and of the control door; `clock` gives monotonic seconds."""

    def __init__(
        self,
        metrics: Registry,
        clock: Callable[[], float],
        configurations: Callable[[], Iterable[Configuration]],
        standing: Rules | None,
    ) -> None:
        self._metrics, self._clock = metrics, clock
        self._configurations, self._standing = configurations, standing
        metrics.before_collect(self._measure)

    def _measure(self) -> None:
        """Set the gauge of each active rule, and remove the gauges of ended rules."""
        now, found = self._clock(), dict[tuple[str, ...], float]()
        for configuration in self._configurations():
            sets = [each.rules for each in configuration.plugins if isinstance(each, Fault)]
            for rules in [*sets, *filter(None, [self._standing])]:
                for rule in rules.about("query"):
                    seconds = behind(rule, configuration.plugins, now)
                    if seconds is not None:
                        found[rule.name,] = max(seconds, found.get((rule.name,), 0.0))
        gauge = self._metrics.gauge(
            "hsdns_fault_behind_seconds",
            "How long ago the first change of the cluster came that a rule of fault holds back; 0 for none.",
            ("rule",),
        )
        gauge.values = found
