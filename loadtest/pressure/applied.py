"""How soon a server applies changes: from the write of an EndpointSlice to the answer table, as its own metric says.

Path: soak.py -> here <- /metrics of the server, hsdns or CoreDNS (coredns_kubernetes_dns_programming_duration_seconds).
Rule 1: the metric has buckets, so of a time the bounds of its bucket are known.
Rule 2: slices that exist when a server starts, or lists again, are in it with their age; those that were last changed
        longer than OLDEST ago are left out.
Rule 3: what is not known is None, with a sentence that says why.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

METRIC: Final = "coredns_kubernetes_dns_programming_duration_seconds"
OLDEST: Final = 60.0  # seconds
_TIMEOUT: Final = 10.0

Buckets = Mapping[float, float]  # upper bound in seconds -> changes that took at most as long


class Scraped(NamedTuple):
    """The buckets of a server at one time, or why they are unknown."""

    buckets: Buckets
    failure: str = ""


class Bounds(NamedTuple):
    """Of a time: it is above `above` and at most `most`, in seconds."""

    above: float
    most: float


class Applied(NamedTuple):
    """The number of changes, and their times; `unknown` says why there are none."""

    changes: int
    p99: Bounds | None
    worst: Bounds | None
    unknown: str = ""


def scrape(port: int) -> Scraped:
    """Read the metric of a server on this machine."""
    address = f"http://127.0.0.1:{port}/metrics"
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT) as reply:
            return Scraped(read(reply.read().decode()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Scraped({}, f"{address} does not say how soon events are applied: {error}")


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


def between(before: Scraped, after: Scraped) -> Applied:
    """The changes that were applied between two scrapes."""
    failure = before.failure or after.failure
    counts = {
        bound: count - before.buckets.get(bound, 0.0)
        for bound, count in sorted(after.buckets.items())
        if bound <= OLDEST
    }
    changes = max(counts.values(), default=0.0)
    if failure or not changes:
        return Applied(0, None, None, failure or f"{METRIC} counts no event that was applied")
    return Applied(int(changes), _bounds(counts, 0.99 * changes), _bounds(counts, changes))


def _bounds(counts: Buckets, least: float) -> Bounds:
    above = 0.0
    for bound, count in counts.items():
        if count >= least:
            return Bounds(above, bound)
        above = bound
    raise AssertionError("the last bucket has all changes")
