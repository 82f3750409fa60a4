"""A histogram of latencies with three digits, like HdrHistogram (docs/decisions/0020).

Path: results.py records -> here -> percentiles in the reports.
Rule 1: the slot of a value is at most 1/1024 of it wide: exact up to 2,047, above that by its first 11 bits.
Rule 2: only used slots are stored, and merging adds their counts: histograms merge exactly, in any order.
Rule 3: a percentile is the value that this share of all values does not exceed; lost queries are above all values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Final, Self

DIGITS: Final = 11  # bits
_HALF: Final = 1 << DIGITS - 1


def slot_of(value: int) -> int:
    """The slot of a value; negative values are in the slot of 0."""
    if value < 2 * _HALF:
        return max(value, 0)
    shift = value.bit_length() - DIGITS
    return (shift << DIGITS - 1) + (value >> shift)


def highest_in(slot: int) -> int:
    """The highest value of a slot, which represents all values in it."""
    if slot < 2 * _HALF:
        return slot
    shift = (slot >> DIGITS - 1) - 1
    return ((slot & _HALF - 1) + _HALF + 1 << shift) - 1


class Histogram:
    """Counts by slot; values are whole numbers, here microseconds."""

    __slots__ = ("slots",)

    def __init__(self, slots: Iterable[tuple[int, int]] = ()) -> None:
        self.slots: Counter[int] = Counter(dict(slots))

    def record(self, value: int) -> None:
        """Add a value."""
        self.slots[slot_of(value)] += 1

    def merge(self, other: Histogram) -> Self:
        """Add the counts of another one."""
        self.slots.update(other.slots)
        return self

    @property
    def total(self) -> int:
        """The number of values."""
        return self.slots.total()

    @property
    def highest(self) -> int | None:
        """The highest value, None if there are none."""
        return highest_in(max(self.slots)) if self.slots else None

    def percentile(self, percent: float, lost: int = 0) -> int | None:
        """The value that `percent` of all do not exceed; `lost` more queries have none.

        None if that query is lost, or there are no values.
        """
        found = self.percentiles((percent,), lost)
        return found[0]

    def percentiles(self, percents: Iterable[float], lost: int = 0) -> list[int | None]:
        """Several percentiles, in the given order."""
        wanted = [
            (max(1, ceil(round(each * (self.total + lost) / 100, 6))), at)
            for at, each in enumerate(percents)
        ]
        found: list[int | None] = [None] * len(wanted)
        passed, slots = 0, iter(sorted(self.slots.items()))
        slot = 0
        for rank, at in sorted(wanted):
            while passed < rank:
                following = next(slots, None)
                if following is None:
                    break
                slot, count = following
                passed += count
            if passed >= rank:
                found[at] = highest_in(slot)
        return found

    def __eq__(self, other: object) -> bool:
        """Whether another one has the same counts."""
        return isinstance(other, Histogram) and self.slots == other.slots

    __hash__ = None  # type: ignore[assignment] # it changes

    def pairs(self) -> list[tuple[int, int]]:
        """Slots and counts in order; Histogram(pairs) is equal to this one."""
        return sorted(self.slots.items())
