"""Statistics: median, percentiles, the ratio to the other server's value, and whether a figure is within its limit.

Path: the results of the benchmarks -> here -> their tables.
Rule: a figure with a limit that could not be measured fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple


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


def read_goals(path: Path, count: int) -> list[list[str]]:
    """The lines of a table of goals, each with so many cells."""
    lines = [line for line in path.read_text().splitlines() if line[:1] != "#"]
    return [[*line.split(" | "), *[""] * count][:count] for line in lines]


def limit_of(cell: str) -> float | None:
    """A number of a table of goals, such as 1.25 or 1/3; None for an empty cell."""
    return float(Fraction(cell)) if cell else None


class Verdict(NamedTuple):
    """A figure that a goal of a benchmark asks for: at most `limit`, or at least, if it has one, and ideally `aim`.

    `instead` is why it holds all the same; `beside` are other cells of its line.
    """

    goal: Any
    value: float | None
    limit: float | None
    aim: float | None = None
    at_least: bool = False
    instead: str = ""
    beside: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the figure is within its limit; always true without one."""
        if self.limit is None or self.value is None:
            return self.limit is None
        within = self.value >= self.limit if self.at_least else self.value <= self.limit
        return within or bool(self.instead)

    @property
    def word(self) -> str:
        """The verdict in a few words."""
        if self.value is None:
            return "not measured"
        if not self.holds:
            return "FAILS"
        if self.aim is not None and self.value > self.aim:
            return "holds, aim missed" if self.limit is not None else "aim missed"
        if self.instead:
            return f"holds: {self.instead}"
        return "holds" if self.aim is None else "aim reached"

    def as_data(self) -> dict[str, Any]:
        """The verdict as data for JSON."""
        return self._asdict() | {"holds": self.holds}


class Checked(NamedTuple):
    """A sentence about a limit, and whether it holds; None if it was not measured."""

    said: str
    holds: bool | None

    def line(self) -> str:
        """What is printed."""
        words = {True: "holds", False: "DOES NOT HOLD", None: "NOT MEASURED"}
        return f"{words[self.holds]}: {self.said}"


def told(checked: Sequence[Checked]) -> int:
    """Print some limits; return the exit status, 1 if one does not hold."""
    print("\n".join(each.line() for each in checked))
    return 0 if all(each.holds for each in checked) else 1
