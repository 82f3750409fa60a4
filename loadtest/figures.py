"""Figures of many measurements: median, percentiles, and the ratio to the peer's.

Path: startup.py, latency.py, churn.py -> here -> report.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values (0 to 1) do not exceed; raise ValueError without any."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Spread(NamedTuple):
    """How a set of durations lies; all in seconds."""

    samples: int
    median: float
    p90: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarise values; raise ValueError without any."""
        if not values:
            raise ValueError("no values")
        return cls(
            len(values),
            median(values),
            percentile(values, 0.9),
            percentile(values, 0.99),
            max(values),
        )


def ratio(ours: float | None, peers: float | None) -> float | None:
    """Ours over the peer's; None where one is missing or the peer's is not above zero."""
    if ours is None or peers is None or peers <= 0:
        return None
    return ours / peers


def middle(values: Sequence[float | None]) -> float | None:
    """The median of those values that are there; None without any."""
    there = [value for value in values if value is not None]
    return median(there) if there else None
