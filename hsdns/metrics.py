"""Numbers that /metrics shows: cheap to count, turned into Prometheus text only when asked.

Path: every step counts here; server/http.py shows it through the `prometheus` plugin.
Rule 1: counting is a dict update (0.2 us; prometheus-client's own objects cost 1 to 6 us a call); prometheus-client
        renders at scrape time from the families that collect() makes.
Rule 2: names of CoreDNS stay as they are; our own begin with `hsdns_`.
Rule 3: label values come from bounded sets, or a client could fill the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]
MOST_LATER: Final = 32  # measurements that wait to be counted, so that counting them is no pause

# Upper bounds, after CoreDNS plugin/plugin.go (times in seconds, sizes in octets).
TIME_BUCKETS: Final = tuple(0.00025 * 2**k for k in range(16))
SLIM_TIME_BUCKETS: Final = tuple(0.00025 * 10**k for k in range(5))
PROGRAMMING_BUCKETS: Final = tuple(0.001 * 2**k for k in range(20))
SIZE_BUCKETS: Final = (
    0.0,
    100.0,
    200.0,
    300.0,
    400.0,
    511.0,
    1023.0,
    2047.0,
    4095.0,
    8291.0,
    16e3,
    32e3,
    48e3,
    64e3,
)

# prometheus.DefBuckets of the Go library.
DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counter:
    """Values that only grow, one for each combination of labels."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help, self.labels = name, help_text, tuple(labels)
        # Without labels the metric is there from the start, with them only what was counted (as in CoreDNS).
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def inc(self, labels: Labels = (), amount: float = 1) -> None:
        """Add to one value."""
        values = self.values
        values[labels] = values.get(labels, 0) + amount


class Gauge(Counter):
    """Values that go up and down."""

    kind = "gauge"

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set one value."""
        self.values[labels] = value


class Histogram:
    """Counts by size class; each value is [count in each class..., count above all, sum]."""

    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self.name, self.help, self.labels, self.buckets = (
            name,
            help_text,
            tuple(labels),
            tuple(buckets),
        )
        self.values: dict[Labels, list[float]] = {} if labels else {(): self._empty()}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count one measurement."""
        cells = self.values.get(labels)
        if cells is None:
            cells = self.values[labels] = self._empty()
        cells[bisect_left(self.buckets, value)] += 1
        cells[-1] += value

    def add(self, cells: Sequence[float], labels: Labels = ()) -> None:
        """Add counts by size class, then their sum, that were made elsewhere."""
        found = self.values.get(labels)
        if found is None:
            found = self.values[labels] = self._empty()
        for index, amount in enumerate(cells):
            found[index] += amount

    def cumulate(self, cells: list[float]) -> list[tuple[str, float]]:
        """Upper bounds as text and how many measurements are at or below them."""
        bounds = [*map(_bound, self.buckets), "+Inf"]
        return list(zip(bounds, accumulate(cells[:-1]), strict=True))

    def _empty(self) -> list[float]:
        return [0.0] * (len(self.buckets) + 2)


Metrics = Counter | Gauge | Histogram


class Registry:
    """All metrics of a process; asking twice for a name gives the same object, so counters outlive a reload."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metrics] = {}
        self._before: list[Callable[[], None]] = []
        self._later: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def before_collect(self, fold: Callable[[], None]) -> None:
        """Call this on the loop before each scrape, to add what is counted elsewhere."""
        self._before.append(fold)

    def later(self, count: Callable[..., None], *measured: Any) -> None:
        """Call `count` with these at the next scrape, or when many wait: not now, when somebody waits for an answer."""
        self._later.append((count, measured))
        if len(self._later) >= MOST_LATER:
            self._catch_up()

    def _catch_up(self) -> None:
        waiting, self._later = self._later, []
        for count, measured in waiting:
            count(*measured)

    def fold(self) -> None:
        """Have everything added that is counted elsewhere; to be called where the metrics are counted."""
        self._catch_up()
        for fold in self._before:
            fold()

    def counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Counter:
        """The counter of this name (with its `_total`)."""
        found = self._metrics.setdefault(name, Counter(name, help_text, labels))
        assert type(found) is Counter, name
        return found

    def gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Gauge:
        """The gauge of this name."""
        found = self._metrics.setdefault(name, Gauge(name, help_text, labels))
        assert isinstance(found, Gauge), name
        return found

    def histogram(
        self, name: str, help_text: str, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> Histogram:
        """The histogram of this name."""
        found = self._metrics.setdefault(name, Histogram(name, help_text, buckets, labels))
        assert isinstance(found, Histogram), name
        return found

    def __iter__(self) -> Iterator[Metrics]:
        return iter(list(self._metrics.values()))  # a scrape runs in a thread beside registrations

    def collect(self) -> Iterator[Metric]:
        """Families for prometheus-client; those without any value are left out."""
        from prometheus_client.core import (  # noqa: PLC0415 - 45 ms that only a scrape needs
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        for metric in list(self._metrics.values()):  # a scrape runs in a thread of its own
            if isinstance(metric, Histogram):
                if metric.values:
                    histogram = HistogramMetricFamily(
                        metric.name, metric.help, labels=metric.labels
                    )
                    for labels, cells in list(metric.values.items()):
                        histogram.add_metric(labels, metric.cumulate(cells), cells[-1])
                    yield histogram
                continue
            if metric.values:
                kind = GaugeMetricFamily if isinstance(metric, Gauge) else CounterMetricFamily
                family = kind(metric.name, metric.help, labels=metric.labels)
                for labels, value in list(metric.values.items()):
                    family.add_metric(labels, value)
                yield family

    def to_text(self) -> bytes:
        """The text that /metrics answers."""
        from prometheus_client import generate_latest  # noqa: PLC0415 - as above

        return generate_latest(self)


def _bound(value: float) -> str:
    """A bucket's upper bound as Go prints it, so that `le` matches the dashboards' recordings."""
    return f"{value:g}" if value == int(value) and value < 1e21 else repr(value)
