"""Metrics of the Python that hsdns runs on.

Path: plugins/prometheus.py, for `runtime_metrics`; counted when /metrics is made.
Source: the names are those of prometheus-client's own collectors, so that dashboards for Python fit.
"""

from __future__ import annotations

import gc
import platform
import threading
from typing import Final
from weakref import WeakSet

from hsdns.metrics import Registry

_shown: Final[WeakSet[Registry]] = WeakSet()  # there is one Python, whatever a reload changes


def show_runtime(metrics: Registry) -> None:
    """Have them on every page from now on, for good, as in CoreDNS."""
    if metrics in _shown:
        return
    _shown.add(metrics)
    counters = {
        what: metrics.counter(f"python_gc_{name}_total", help_text, ("generation",))
        for what, name, help_text in (
            ("collected", "objects_collected", "Objects collected during gc"),
            ("uncollectable", "objects_uncollectable", "Uncollectable objects found during GC"),
            ("collections", "collections", "Number of times this generation was collected"),
        )
    }
    threads = metrics.gauge("hsdns_runtime_threads", "Threads that Python knows of.")
    metrics.gauge(
        "python_info",
        "Python platform information",
        ("implementation", "major", "minor", "patchlevel", "version"),
    ).set(
        1,
        (
            platform.python_implementation(),
            *platform.python_version_tuple(),
            platform.python_version(),
        ),
    )

    def look() -> None:
        for generation, found in enumerate(gc.get_stats()):
            for what, counter in counters.items():
                counter.values[(str(generation),)] = found[what]
        threads.set(threading.active_count())

    metrics.before_collect(look)
