"""Metrics: counters that are cheap to update, rendered as Prometheus text for each scrape.

Path: every step counts; server/http/pages.py serves them through the `prometheus` plugin.
Rule 1: counting is a dict update (0.2 us; prometheus-client's own objects cost 1 to 6 us per call); prometheus-client
        renders the families that collect() makes.
Rule 2: CoreDNS's metrics have their original names; those of hsdns begin with `hsdns_`.
Rule 3: metrics.txt has the help text of each metric, which only a scrape reads.  A handler of the plugin python, which
        has the Registry, too, gives that of its own metric after the name.
Rule 4: label values come from bounded sets, because otherwise a client could exhaust the memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]
MAX_DEFERRED: Final = 32  # deferred measurements, limited so that counting them takes little time

# Upper bounds, after CoreDNS plugin/plugin.go (times in seconds, sizes in octets).
TIME_BUCKETS: Final = tuple(0.00025 * 2**k for k in range(16))
SLIM_TIME_BUCKETS: Final = tuple(0.00025 * 10**k for k in range(5))
PROGRAMMING_BUCKETS: Final = tuple(0.001 * 2**k for k in range(20))
SIZE_BUCKETS: Final = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3)

# prometheus.DefBuckets of the Go library.
DEFAULT_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Counter:
    """Values that only increase, one for each combination of label values."""

    kind = "counter"

    def __init__(self, name: str, labels: Sequence[str] = ()) -> None:
        self.name, self.labels = name, tuple(labels)
        # Without labels the metric exists from the start, with labels only the values counted (as in CoreDNS).
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def inc(self, labels: Labels = (), amount: float = 1) -> None:
        """Increase a value."""
        values = self.values
        values[labels] = values.get(labels, 0) + amount


class Gauge(Counter):
    """Values that increase and decrease."""

    kind = "gauge"

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set a value."""
        self.values[labels] = value


class Histogram:
    """Counts by bucket; each value is [count of each bucket..., count above all, sum]."""

    kind = "histogram"

    def __init__(self, name: str, buckets: Sequence[float], labels: Sequence[str] = ()) -> None:
        self.name, self.labels = name, tuple(labels)
        self.buckets = tuple(buckets)
        self.values: dict[Labels, list[float]] = {} if labels else {(): self._empty()}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count a measurement."""
        cells = self.values.get(labels)
        if cells is None:
            cells = self.values[labels] = self._empty()
        cells[bisect_left(self.buckets, value)] += 1
        cells[-1] += value

    def add(self, cells: Sequence[float], labels: Labels = ()) -> None:
        """Add counts by bucket, and their sum as the last element."""
        found = self.values.get(labels)
        if found is None:
            found = self.values[labels] = self._empty()
        for index, amount in enumerate(cells):
            found[index] += amount

    def cumulate(self, cells: list[float]) -> list[tuple[str, float]]:
        """Return upper bounds as text with the number of measurements at or below them."""
        bounds = [*map(_bound, self.buckets), "+Inf"]
        return list(zip(bounds, accumulate(cells[:-1]), strict=True))

    def _empty(self) -> list[float]:
        return [0.0] * (len(self.buckets) + 2)


Metrics = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Registry:
    """All metrics of the process; the same name always gives the same object, so that counters survive a reload."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metrics] = {}
        self._help_texts: dict[str, str] = {}  # those of handlers
        self._before: list[Callable[[], None]] = []
        # Threads defer; one at a time runs what is deferred.
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._running = Lock()

    def before_collect(self, fold: Callable[[], None]) -> None:
        """Call `fold` on the loop before each scrape, to add values that are counted elsewhere."""
        self._before.append(fold)

    def defer(self, count: Callable[..., None], *measured: Any) -> None:
        """Call `count` at the next scrape, or when many calls are deferred, so that no query waits for it."""
        self._deferred.append((count, measured))
        if len(self._deferred) >= MAX_DEFERRED:
            self._run_deferred()

    def _run_deferred(self) -> None:
        if not self._running.acquire(blocking=False):
            return  # another thread does
        try:
            while self._deferred:
                count, measured = self._deferred.popleft()
                count(*measured)
        finally:
            self._running.release()

    def fold(self) -> None:
        """Add all values that are counted elsewhere; called on the loop."""
        self._run_deferred()
        for fold in self._before:
            fold()

    def counter(self, name: str, *about: Sequence[str], **labels: Sequence[str]) -> Counter:
        """Return the counter with this name (including `_total`); `about` are its labels."""
        return self._add(Counter(name, *self._without_help(name, about), **labels))

    def gauge(self, name: str, *about: Sequence[str], **labels: Sequence[str]) -> Gauge:
        """Return the gauge with this name; `about` are its labels."""
        return self._add(Gauge(name, *self._without_help(name, about), **labels))

    def histogram(self, name: str, *about: Sequence[Any], **labels: Any) -> Histogram:
        """Return the histogram with this name; `about` are its buckets and its labels."""
        return self._add(Histogram(name, *self._without_help(name, about), **labels))

    def _without_help(self, name: str, about: tuple[Sequence[Any], ...]) -> tuple[Any, ...]:
        if about and isinstance(about[0], str):
            self._help_texts[name] = about[0]
            return about[1:]
        return about

    def _add(self, metric: M) -> M:
        """The metric with this name, if there is one, else this one."""
        found = self._metrics.setdefault(metric.name, metric)
        assert type(found) is type(metric), metric.name
        return found

    def __iter__(self) -> Iterator[Metrics]:
        return iter(list(self._metrics.values()))  # a scrape runs in a thread, during registrations

    def collect(self) -> Iterator[Metric]:
        """Yield families for prometheus-client, without those that have no value."""
        from prometheus_client.core import (  # noqa: PLC0415 - 45 ms that only a scrape needs
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        texts = self._help_texts | help_texts()
        for metric in self:
            family: Any
            about = metric.name, texts.get(metric.name, "")
            if isinstance(metric, Histogram):
                family = HistogramMetricFamily(*about, labels=metric.labels)
                for labels, cells in list(metric.values.items()):
                    family.add_metric(labels, metric.cumulate(cells), cells[-1])
            else:
                kind = GaugeMetricFamily if isinstance(metric, Gauge) else CounterMetricFamily
                family = kind(*about, labels=metric.labels)
                for labels, value in list(metric.values.items()):
                    family.add_metric(labels, value)
            if metric.values:
                yield family

    def to_text(self) -> bytes:
        """Return the response of /metrics."""
        from prometheus_client import generate_latest  # noqa: PLC0415 - as above

        return generate_latest(self)


@cache
def help_texts() -> dict[str, str]:
    """What each metric of hsdns counts or measures, by its name."""
    from importlib.resources import files  # noqa: PLC0415 - as above

    text = files("hsdns").joinpath("metrics.txt").read_text("utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def _bound(value: float) -> str:
    """Return a bucket's upper bound as Go prints it, so that `le` matches existing dashboards."""
    return f"{value:g}" if value == int(value) and value < 1e21 else repr(value)
