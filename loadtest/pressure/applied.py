"""How soon a server applies changes: from the write of an EndpointSlice to the answer table, as its own metric says.

Path: soak.py -> here <- /metrics of the server, hsdns or CoreDNS (coredns_kubernetes_dns_programming_duration_seconds).
Rule 1: the metric has buckets, so a time is known as the upper bound of its bucket: never less than it was.
Rule 2: slices that exist when a server starts, or lists again, are in it with their age; those that were last changed
        longer than OLDEST ago are left out.
"""

from __future__ import annotations

import math
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

METRIC: Final = "coredns_kubernetes_dns_programming_duration_seconds"
OLDEST: Final = 60.0  # seconds
_TIMEOUT: Final = 10.0

Buckets = Mapping[float, float]  # upper bound in seconds -> changes that took at most so long


class Applied(NamedTuple):
    """How many changes there were, and bounds in seconds; infinite where the metric has none that holds."""

    changes: int
    p99: float
    worst: float


NONE: Final = Applied(0, math.inf, math.inf)


def scrape(port: int) -> dict[float, float]:
    """The buckets of a server; raise OSError if it does not answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_TIMEOUT) as reply:
        return read(reply.read().decode())


def read(text: str) -> dict[float, float]:
    """The buckets of all kinds of Service together; empty without any."""
    found: dict[float, float] = {}
    for family in text_string_to_metric_families(text):
        if family.name == METRIC:
            for sample in family.samples:
                if sample.name == f"{METRIC}_bucket":
                    bound = float(sample.labels["le"])
                    found[bound] = found.get(bound, 0.0) + sample.value
    return found


def between(before: Buckets, after: Buckets) -> Applied:
    """What was applied between two scrapes."""
    counts = {
        bound: count - before.get(bound, 0.0)
        for bound, count in sorted(after.items())
        if bound <= OLDEST
    }
    changes = max(counts.values(), default=0.0)
    return Applied(int(changes), _bound(counts, 0.99 * changes), _bound(counts, changes))


def _bound(counts: Buckets, least: float) -> float:
    if not least:
        return math.inf
    return next((bound for bound, count in counts.items() if count >= least), math.inf)
