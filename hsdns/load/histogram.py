"""A histogram of latencies with three digits, like HdrHistogram (docs/decisions/0020).

Path: results.py records -> here -> percentiles in the reports.
Rule 1: the slot of a value is at most 1/1024 of it wide: exact up to 2,047, above that by its first 11 bits.
Rule 2: only used slots are stored, and merging adds their counts: histograms merge exactly, in any order.
Rule 3: a percentile is the value that this share of all values does not exceed; lost queries are above all values.
Rule 4: a long run has thousands of histograms.  Those that no longer change are packed, in a tenth of the memory.

The percentiles of a run, and which of them are withheld because the generator was the limit:
Rule 1: a latency includes the generator's lateness.  A percentile is stated only if the same percentile of the lateness
        is at most half of it, or at most TRIFLE; otherwise the latency was at most that.  It is no part of 0, which is
        that of a lookup without a wait.
Rule 2: a lost query counts as slower than any answered one.
Rule 3: what a query that was sent late, or lost meanwhile, would have taken otherwise is unknown.  A percentile is
        stated only if these are at most half of the queries above it, so a maximum only without any.  For a service
        time, which runs from the sending, only those lost count.
Rule 4: if this machine sent less than the share ENOUGH of what was due, the rate was not the planned one, and no
        latency is stated.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from math import ceil
from typing import Final, Self

import msgspec

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

    def pairs(self) -> list[tuple[int, int]]:
        """Slots and counts in order; Histogram(pairs) is equal to this one."""
        return sorted(self.items())


PERCENTS: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
TRIFLE: Final = 50  # microseconds
ENOUGH: Final = 0.99

LOST: Final = "lost"
LATE: Final = "generator"
NOTHING: Final = "none"


class Percentile(msgspec.Struct, frozen=True):
    """`name` is p50 ... p99.99 or max; `why` there is none: lost, generator (the limit), few, never, none.

    `at_most` is an upper bound of one that is withheld, if there is one.
    """

    name: str
    us: int | None
    why: str = ""
    at_most: int | None = None


def name_of(percent: float) -> str:
    """The name of a percentile: p50, p99.9, max."""
    return "max" if percent == 100 else f"p{percent:g}"


def percentiles(histogram: Histogram) -> list[Percentile]:
    """The percentiles of a histogram, such as that of the generator's own lateness."""
    return [
        Percentile(name_of(percent), us, "" if us is not None else NOTHING)
        for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS), strict=True)
    ]


_NONE: Final = Histogram()


def latency_figures(
    latency: Histogram, lost: int, lateness: Histogram, unknown: int = 0, *, withheld: bool = False
) -> list[Percentile]:
    """The percentiles of a latency; that of `unknown` queries is not the server's; `withheld`: none is stated."""
    late, above = lateness.percentiles(PERCENTS), (latency.total + lost) / 100
    found = []
    for percent, us, own in zip(PERCENTS, latency.percentiles(PERCENTS, lost), late, strict=True):
        name = name_of(percent)
        if withheld:
            found.append(Percentile(name, None, LATE))
        elif unknown and unknown * 2 > round((100 - percent) * above, 6):
            found.append(Percentile(name, None, LATE, us))
        elif us is None:
            found.append(Percentile(name, None, LOST if lost else NOTHING))
        elif us and own is not None and own > TRIFLE and own * 2 > us:
            found.append(Percentile(name, None, LATE, us))
        else:
            found.append(Percentile(name, us))
    return found


def service_figures(
    service: Histogram, lost: int, unknown: int, *, withheld: bool
) -> list[Percentile]:
    """The percentiles of a service time, which does not include the generator's lateness."""
    return latency_figures(service, lost, _NONE, unknown, withheld=withheld)


def us_to_text(us: float) -> str:
    """Microseconds as text with three digits, in a suitable unit."""
    for unit, size in (("s", 1_000_000.0), ("ms", 1000.0)):
        if us >= size:
            value = us / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{us:.0f} us"


def all_sent(sent: int, not_sent: int) -> bool:
    """Whether enough of what was due was sent."""
    return sent >= (sent + not_sent) * ENOUGH
