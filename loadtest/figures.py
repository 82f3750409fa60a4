"""Statistics: median, percentiles, the ratio to the other server's value, and whether a figure is within its limit.

Path: the results and goals of the benchmarks -> here -> their reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed; raise ValueError if empty."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


class Spread(NamedTuple):
    """The distribution of a set of durations, in seconds."""

    samples: int
    median: float
    p90: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Summarize values; raise ValueError if empty."""
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
    """The ratio of hsdns's value to the other server's; None if one is missing or the other is not positive."""
    if ours is None or peers is None or peers <= 0:
        return None
    return ours / peers


def median_of_known(values: Sequence[float | None]) -> float | None:
    """The median of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def holds(value: float | None, limit: float | None) -> bool:
    """Whether a figure is within its limit; always true without one, and false if it was not measured."""
    return limit is None or (value is not None and value <= limit)


def verdict(value: float | None, limit: float | None, aim: float | None) -> str:
    """The verdict in one or two words."""
    if value is None:
        return "not measured"
    if not holds(value, limit):
        return "FAILS"
    if aim is not None and value > aim:
        return "holds, aim missed" if limit is not None else "aim missed"
    return "holds" if aim is None else "aim reached"
