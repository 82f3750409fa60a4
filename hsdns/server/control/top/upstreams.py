"""The upstreams: their query rate, latency and failures.

Path: picture.py -> here -> the metrics and objects of hsdns/upstream/exchange.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from hsdns.metrics import TIME_BUCKETS, Histogram
from hsdns.server.control.door import Door

DURATIONS: Final = "coredns_proxy_request_duration_seconds"


class _Counts(NamedTuple):
    """Counts of one upstream: replies by duration, as in Histogram, and failures."""

    durations: Sequence[float]
    failures: int


_NONE: Final = _Counts((0.0,) * (len(TIME_BUCKETS) + 2), 0)


class Upstreams:
    """Compares the counts of each upstream with those of the previous call."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._at = door.clock()
        self._before = self._count()

    def take(self) -> list[dict[str, Any]]:
        """Each upstream with replies per second, failures and median time since the last call."""
        now, before = self._door.clock(), self._before
        seconds = max(now - self._at, 0.001)
        self._at, self._before = now, self._count()
        found = []
        for address, counts in self._before.items():
            old = before.get(address, _NONE)
            pairs = zip(counts.durations[:-1], old.durations[:-1], strict=True)
            new = [count - earlier for count, earlier in pairs]
            failures = counts.failures - old.failures
            found.append(
                {
                    "address": address,
                    "per_second": round(sum(new) / seconds, 2),
                    # The counts restart from 0 after a reload.
                    "failures": failures if failures >= 0 else counts.failures,
                    "p50_ms": median(new),
                }
            )
        return found

    def _count(self) -> dict[str, _Counts]:
        """The upstreams of the serving configuration, by address."""
        # The import takes 25 ms, and only readers of this page need it.
        from hsdns.plugins.forward import Forward  # noqa: PLC0415 - as said

        plugins = self._door.serving().configuration.plugins
        routes = [route for each in plugins if isinstance(each, Forward) for route in each.routes]
        found: dict[str, _Counts] = {}
        for upstream in (each for route in routes for each in route.upstreams):
            known = found.get(str(upstream), _NONE)
            found[str(upstream)] = known._replace(failures=known.failures + upstream.failed)
        for metric in self._door.metrics:
            if metric.name != DURATIONS or not isinstance(metric, Histogram):
                continue
            for (_, address, _), cells in metric.values.items():
                if address in found:
                    sums = [a + b for a, b in zip(found[address].durations, cells, strict=True)]
                    found[address] = found[address]._replace(durations=sums)
        return found


def median(counts: Sequence[float]) -> float | None:
    """The median reply time in milliseconds, interpolated within its bucket; None without replies.

    If the median is above the last bucket, it is the bound of that bucket.
    """
    half = sum(counts) / 2
    if not half:
        return None
    sums = list(accumulate(counts))
    place = bisect_left(sums, half)
    if place >= len(TIME_BUCKETS):
        return float(TIME_BUCKETS[-1] * 1000)
    below, above = (float(each) for each in ((0.0, *TIME_BUCKETS)[place], TIME_BUCKETS[place]))
    part = (half - (sums[place] - counts[place])) / counts[place]
    return round((below + (above - below) * part) * 1000, 3)
