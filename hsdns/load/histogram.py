"""A histogram of latencies with three digits, as HdrHistogram has them (docs/decisions/0020).

Path: results.py records -> here -> percentiles in the reports.
Rule 1: a value is in a slot of 1/1024 of its size at most: up to 2,047 exactly, above with its first 11 bits.
Rule 2: slots are only those that were used, and their counts are added: histograms merge exactly, in any order.
Rule 3: a percentile is the value that so many of all are not above; what has no value is above all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Final, Self

DIGITS: Final = 11  # bits
_HALF: Final = 1 << DIGITS - 1


def slot_of(value: int) -> int:
    """The slot of a value; negative ones are in that of 0."""
    if value < 2 * _HALF:
        return max(value, 0)
    shift = value.bit_length() - DIGITS
    return (shift << DIGITS - 1) + (value >> shift)


def highest_in(slot: int) -> int:
    """The highest value of a slot, which stands for all in it."""
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
        """Add all that another one has."""
        self.slots.update(other.slots)
        return self

    @property
    def total(self) -> int:
        """How many values it has."""
        return self.slots.total()

    @property
    def highest(self) -> int | None:
        """The highest value, None without any."""
        return highest_in(max(self.slots)) if self.slots else None

    def percentile(self, percent: float, lost: int = 0) -> int | None:
        """The value that `percent` of all are not above; `lost` more have none.

        None if that is one of the lost, or there are no values.
        """
        found = self.percentiles((percent,), lost)
        return found[0]

    def percentiles(self, percents: Iterable[float], lost: int = 0) -> list[int | None]:
        """Several at once, in the order given."""
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
        """Slots and counts in order; Histogram(pairs) is the same again."""
        return sorted(self.slots.items())
