from __future__ import annotations

from hsdns.metrics import Registry
from hsdns.plugins.prometheus import show_runtime

NAMES = {
    "python_gc_objects_collected_total", "python_gc_objects_uncollectable_total",
    "python_gc_collections_total", "python_info", "hsdns_runtime_threads",
}  # fmt: skip


def test_metrics_are_registered_once() -> None:
    """A reload registers them again, without effect."""
    metrics = Registry()
    show_runtime(metrics)
    show_runtime(metrics)
    assert {metric.name for metric in metrics} == NAMES
    metrics.fold()
    assert set(metrics.counter("python_gc_collections_total", "").values) == {
        ("0",), ("1",), ("2",),
    }  # fmt: skip
    assert metrics.gauge("hsdns_runtime_threads", "").values[()] >= 1
    assert len(metrics._before) == 1


def test_text_contains_the_metrics() -> None:
    metrics = Registry()
    show_runtime(metrics)
    metrics.fold()
    text = metrics.to_text().decode()
    assert "# TYPE python_gc_collections_total counter" in text
    assert 'python_info{implementation="CPython"' in text
