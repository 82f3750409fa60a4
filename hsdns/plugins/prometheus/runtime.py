"""Metrics of the Python runtime.

Path: plugins/prometheus, for `runtime_metrics`; updated when /metrics is requested.
Source: the collectors of prometheus-client, with the same names, so existing dashboards for Python work.
"""

from __future__ import annotations

import gc
import platform
import threading
from typing import Final
from weakref import WeakSet

from hsdns.metrics import Registry

_registered: Final[WeakSet[Registry]] = WeakSet()


def show_runtime(metrics: Registry) -> None:
    """Register the metrics, once; as in CoreDNS, a reload does not remove them."""
    if metrics in _registered:
        return
    _registered.add(metrics)
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

    def update() -> None:
        for generation, found in enumerate(gc.get_stats()):
            for what, counter in counters.items():
                counter.values[(str(generation),)] = found[what]
        threads.set(threading.active_count())

    metrics.before_collect(update)
