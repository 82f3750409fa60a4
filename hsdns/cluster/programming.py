"""How long a change of endpoints took from the cluster's controllers to the answers here.

Path: store.py asks for each change of a slice -> metrics.
Rule 1: the time is the one that the EndpointSlice controller wrote on the slice; a slice without it, or with one that
        is no time, is not measured.  Clocks of two machines are compared, so the duration may come out below zero.
Rule 2: an event is waited for, so nothing is read or counted at once that can be at the next scrape.
Rule 3: the slices that exist at the start are measured too, with their age, as in CoreDNS.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/metrics.go; RFC 3339 section 5.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from hsdns.cluster.value import HEADLESS, ServiceValue
from hsdns.metrics import PROGRAMMING_BUCKETS, Registry

CHANGE_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_NO_TIME: Final = datetime.fromisoformat("0001-01-01T00:00:00+00:00")  # Go's zero time


# Kind of Service, when its change began as a slice has it, and now in seconds since the epoch.
Programmed = Callable[[str, str, float], None]


def programming_in(metrics: Registry) -> Programmed:
    """Take what is measured into the histogram that CoreDNS has."""
    histogram = metrics.histogram(
        "coredns_kubernetes_dns_programming_duration_seconds",
        "Histogram of the time (in seconds) it took to program a dns instance.",
        PROGRAMMING_BUCKETS,
        ("service_kind",),
    )

    def count(kind: str, begun: str, now: float) -> None:
        since = read_time(begun)
        if since is not None:
            histogram.observe(now - since, (kind,))

    return lambda kind, begun, now: metrics.defer(count, kind, begun, now)


def read_time(text: str) -> float | None:
    """Seconds since the epoch from RFC 3339 with up to nanoseconds; None where it is no time, or Go's zero time."""
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text)  # what is finer than microseconds it drops
    except ValueError:
        return None
    return None if found == _NO_TIME else found.timestamp()


def service_kind(value: ServiceValue) -> str:
    """The kind as the metric's label has it; an ExternalName counts as CoreDNS counts it."""
    if value.kind != HEADLESS:
        return "cluster_ip"
    return "headless_with_selector" if value.has_selector else "headless_without_selector"
