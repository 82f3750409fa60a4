"""A histogram of latencies with three digits, like HdrHistogram (docs/decisions/0020).

Path: results.py records -> here -> percentiles in the reports.
Rule 1: the slot of a value is at most 1/1024 of it wide: exact up to 2,047, above that by its first 11 bits.
Rule 2: only used slots are stored, and merging adds their counts: histograms merge exactly, in any order.
Rule 3: a percentile is the value that this share of all values does not exceed; lost queries are above all values.
Rule 4: a long run has thousands of histograms.  Those that no longer change are packed, in a tenth of the memory.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Final, Self

DIGITS: Final = 11  # bits
_HALF: Final = 1 << DIGITS - 1
_NO_COUNTS: Final[Counter[int]] = Counter()  # of packed histograms


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


Slots = list[tuple[int, int]]


class Histogram:
    """Counts by slot; values are whole numbers, here microseconds."""

    __slots__ = ("_counts", "_packed")

    def __init__(self, slots: Iterable[tuple[int, int]] = ()) -> None:
        self._counts: Counter[int] = Counter(dict(slots))
        self._packed: tuple[array[int], array[int]] | None = None

    @property
    def slots(self) -> Counter[int]:
        """The counts by slot, to be changed: a packed histogram is unpacked."""
        if self._packed is not None:
            self._counts, self._packed = Counter(dict(self.items())), None
        return self._counts

    def items(self) -> Iterable[tuple[int, int]]:
        """Slots and counts, in any order."""
        return self._counts.items() if self._packed is None else zip(*self._packed, strict=True)

    def pack(self) -> None:
        """Store the counts in as few octets as possible; each must be below 2^32."""
        if self._packed is None:
            self._packed = array("I", self._counts.keys()), array("I", self._counts.values())
            self._counts = _NO_COUNTS

    def record(self, value: int) -> None:
        """Add a value."""
        self.slots[slot_of(value)] += 1

    def merge(self, other: Histogram) -> Self:
        """Add the counts of another one."""
        self.slots.update(dict(other.items()))
        return self

    @property
    def total(self) -> int:
        """The number of values."""
        return sum(self._counts.values() if self._packed is None else self._packed[1])

    @property
    def highest(self) -> int | None:
        """The highest value, None if there are none."""
        slots = self._counts.keys() if self._packed is None else self._packed[0]
        return highest_in(max(slots)) if slots else None

    def percentile(self, percent: float, lost: int = 0) -> int | None:
        """The value that `percent` of all do not exceed; `lost` more queries have none.

        None if that query is lost, or there are no values.
        """
        found = self.percentiles((percent,), lost)
        return found[0]

    def percentiles(self, percents: Iterable[float], lost: int = 0) -> list[int | None]:
        """Several percentiles, in the given order."""
        whole = self.total + lost
        wanted = [
            (max(1, ceil(round(each * whole / 100, 6))), at) for at, each in enumerate(percents)
        ]
        found: list[int | None] = [None] * len(wanted)
        passed, slots = 0, iter(sorted(self.items()))
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
        return isinstance(other, Histogram) and dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment] # it changes

    def pairs(self, known: dict[tuple[int, int], tuple[int, int]] | None = None) -> Slots:
        """Slots and counts in order; Histogram(pairs) is equal to this one.

        Those that are in `known` are taken from there and the others added, so that many histograms share them.
        """
        found = sorted(self.items())
        return found if known is None else [known.setdefault(each, each) for each in found]
