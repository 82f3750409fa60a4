"""The DNS programming duration (CoreDNS's term): the time from a change of endpoints to the new answers.

Path: services.py reports each change of a slice -> metrics.
Rule 1: the start is the time in the slice's annotation by the EndpointSlice controller; a slice without a valid one is
        not measured.  The clocks of two machines are compared, so the duration may be negative.
Rule 2: parsing and counting are deferred to the next scrape, to keep the handling of events short.
Rule 3: the slices that exist at the start are measured too, with their age, as in CoreDNS.
Source: CoreDNS 1.14.7 plugin/kubernetes/object/metrics.go; RFC 3339 section 5.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from hsdns.cluster.value import HEADLESS, ServiceValue
from hsdns.fastpath import read_time as compiled_read_time
from hsdns.metrics import PROGRAMMING_BUCKETS, Registry

CHANGE_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_ZERO_TIME: Final = datetime.fromisoformat("0001-01-01T00:00:00+00:00")  # of Go

# Takes the kind of Service, the annotated time of the change, and the current time in seconds since the epoch.
Programmed = Callable[[str, str, float], None]


def programming_in(metrics: Registry) -> Programmed:
    """The function that observes durations in CoreDNS's histogram."""
    histogram = metrics.histogram(
        "coredns_kubernetes_dns_programming_duration_seconds",
        "Histogram of the time (in seconds) it took to program a dns instance.",
        PROGRAMMING_BUCKETS,
        ("service_kind",),
    )

    def observe(kind: str, changed_at: str, now: float) -> None:
        start = read_time(changed_at)
        if start is not None:
            histogram.observe(now - start, (kind,))

    return lambda kind, changed_at, now: metrics.defer(observe, kind, changed_at, now)


def read_time(text: str) -> float | None:
    """Seconds since the epoch from RFC 3339; None if the text is not a time, or is Go's zero time."""
    found = None if compiled_read_time is None else compiled_read_time(text)
    return read_time_in_python(text) if found is None else found


def read_time_in_python(text: str) -> float | None:
    """The same as read_time(), without compiled code."""
    if _RFC3339.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text)  # ignores digits beyond microseconds
    except ValueError:
        return None
    return None if found == _ZERO_TIME else found.timestamp()


def service_kind(value: ServiceValue) -> str:
    """The value of the metric's label `service_kind`; an ExternalName is "cluster_ip", as in CoreDNS."""
    if value.kind != HEADLESS:
        return "cluster_ip"
    return "headless_with_selector" if value.has_selector else "headless_without_selector"
