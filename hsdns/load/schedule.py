"""The schedule of all queries, made before the first one is sent.

Path: cli/load.py reads -rate, -time and -arrival -> here -> send/loop.py takes the times one by one.
Rule 1: a schedule depends only on its arguments; the same seed gives the same schedule.
Rule 2: a stage may have an arrival, kinds of names and changes of the cluster of its own; one without them has those
        of the load.
Rule 3: the rate of a stage is a line from `first` to `last`.  A query is due when the area below that line reaches its
        number (even), the sum of so many exponential steps (poisson), or the number of its burst's first query (burst).
        With slope s that is at 2 n / (first + sqrt(first^2 + 2 s n)).

The portion of a plan that one of several generators carries out: -part 3/8:
Rule: query N of the plan belongs to generator N % count.  So the portions together are the plan: the same queries at
      the same times, for any number of generators.

When a query may leave, if the sender is behind its schedule:
Rule 1: what was due in the last `late_after` it sends at once, what was due before at 1.2 times the planned rate, so
        that no server gets a burst that the schedule does not have.
Rule 2: `late_after` is the time of AT_ONCE queries, for which a socket of ordinary size has room (277 in 208 KiB), from
        LATE_AFTER, which a sender in order does not need, to MOST_LATE, so that what is late by more is told at low
        rates too.  The queries of a burst cannot leave at once, so there it is at least BURST_EACH for each.
Rule 3: a query that is sent later than that is late: its loss may be due to the sender.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, chain, count, groupby, islice, repeat, takewhile
from math import ceil, inf, log, sqrt
from random import Random
from typing import Final, NamedTuple, TypeVar

import msgspec

from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError

T = TypeVar("T")
MOST_PARTS: Final = 1000  # generators


class Portion(NamedTuple):
    """One of `parts` portions; `part` is less than `parts`, like the index of an Indexed Job."""

    part: int = 0
    parts: int = 1

    def of(self, found: Iterator[T]) -> Iterator[T]:
        """The items that belong to this portion."""
        return found if self.parts == 1 else islice(found, self.part, None, self.parts)

    def to_text(self) -> str:
        """The value of -part; "" for the whole."""
        return "" if self.parts == 1 else f"{self.part}/{self.parts}"


WHOLE: Final = Portion()


def read_portion(text: str) -> Portion:
    """Read -part, INDEX/COUNT; raise LoadError."""
    index, _, count = text.partition("/")
    if not all(each.isascii() and each.isdigit() and len(each) < 5 for each in (index, count)):
        raise LoadError(f'--part needs an index and a count such as 0/8, found "{text}"')
    if not 0 < int(count) <= MOST_PARTS:
        raise LoadError(f'--part: "{count}" in "{text}" is not a count from 1 to {MOST_PARTS}')
    if int(index) >= int(count):
        raise LoadError(
            f'--part: "{index}" in "{text}" is not an index from 0 to {int(count) - 1}; '
            f"the first of {int(count)} is 0/{int(count)}"
        )
    return Portion(int(index), int(count))


EVEN: Final = "even"
POISSON: Final = "poisson"
BURST: Final = "burst"
SECOND: Final = 1_000_000_000  # nanoseconds


AT_ONCE: Final = 64  # queries
LATE_AFTER: Final = 1_000_000  # nanoseconds
MOST_LATE: Final = 20_000_000
NEVER_LATE: Final = 1 << 62
BURST_EACH: Final = 20_000  # nanoseconds
CATCH_UP: Final = 6  # the rate is 6/5 of the planned one
# Nanoseconds by which a schedule that waits for room may be late before it is postponed: so queries leave together.
POSTPONED_AFTER: Final = 10_000_000


class Pace:
    """When queries may leave, in nanoseconds of the monotonic clock; `due` is when the next one is, None at the end.

    With `is_postponed`, the schedule is moved instead of caught up with.
    """

    def __init__(
        self, times: Iterator[int], begin: int, late_after: int, *, is_postponed: bool = False
    ) -> None:
        self._times, self._begin, self._late_after = times, begin, late_after
        self._is_postponed = is_postponed
        first = next(times, None)
        self.due = None if first is None else begin + first
        self.at = self.due or 0  # when the next query may leave

    def begin_turn(self, now: int) -> None:
        """Let the next query leave now."""
        if self._is_postponed:
            assert self.due is not None, "it leaves"
            moved = max(0, now - self.due - POSTPONED_AFTER)
            self._begin += moved
            self.due = self.at = self.due + moved
        elif now - self.at > self._late_after:
            self.at = now - self._late_after

    def advance(self) -> bool:
        """Go on to the next query; return whether there is one."""
        following, due = next(self._times, None), self.due
        if following is None or due is None:
            self.due = None
            return False
        self.due = self._begin + following
        behind = self.at - due
        self.at = self.due + max(0, behind - (self.due - due) // CATCH_UP) if behind else self.due
        return True


class Stage(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A part of a schedule: seconds, and queries a second at its begin and its end.

    `arrival` "" is that of the schedule; so are no `mix`, the shares of kinds of names, and no `churn`, the changes a
    second.
    """

    seconds: float
    first: float
    last: float
    arrival: str = ""
    burst: int = 1
    mix: dict[str, int] = {}
    churn: float | None = None

    @property
    def area(self) -> float:
        """The number of queries."""
        return (self.first + self.last) / 2 * self.seconds


class Schedule(msgspec.Struct, frozen=True):
    """Stages one after another; `arrival` is EVEN, POISSON or BURST, with `burst` queries at once."""

    stages: tuple[Stage, ...]
    arrival: str = EVEN
    burst: int = 1
    seed: int = 0

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def fastest(self) -> float:
        """The highest rate, in queries per second."""
        return max(max(stage.first, stage.last) for stage in self.stages)

    @property
    def late_after(self) -> int:
        """The nanoseconds after which a query is late."""
        together = min(round(AT_ONCE / self.fastest * SECOND), MOST_LATE)
        return max(LATE_AFTER, together, self.largest * BURST_EACH)

    @property
    def largest(self) -> int:
        """The most queries of a burst."""
        return max(self.burst, *(stage.burst for stage in self.stages))

    def churn(self, usual: float, ahead: float) -> list[tuple[float, float]]:
        """Seconds and changes a second: of each stage, the first of which begins in `ahead` seconds."""
        rates = [usual if stage.churn is None else stage.churn for stage in self.stages]
        lengths = [ahead + self.stages[0].seconds, *(each.seconds for each in self.stages[1:])]
        return list(zip(lengths, rates, strict=True))

    def stage_numbers(self) -> Iterator[int]:
        """The index of the stage of each query."""
        ends, at = list(accumulate(stage.area for stage in self.stages)), 0
        for number in takewhile(ends[-1].__gt__, self._numbers()):
            while number >= ends[at]:
                at += 1
            yield at

    def times(self, portion: Portion = WHOLE) -> Iterator[int]:
        """When each query of a portion is due, in nanoseconds from the begin; they never fall."""
        numbers = portion.of(self._numbers())  # only the needed times are computed
        number = next(numbers)
        began = passed = 0.0
        for stage in self.stages:
            area, seconds, first = stage.area, stage.seconds, stage.first
            square, double_slope = first * first, 2 * (stage.last - first) / seconds
            end = passed + area
            while (
                number < end
            ):  # inline, because it runs for every query while the load is being sent
                within = number - passed
                if within > 0:
                    root = sqrt(max(0.0, square + double_slope * within))
                    yield round((began + min(seconds, 2 * within / (first + root))) * SECOND)
                else:
                    yield round(began * SECOND)
                number = next(numbers)
            began += seconds
            passed += area

    def _numbers(self) -> Iterator[float]:
        """The areas at which queries are due, and inf at the end."""
        begin = end = 0.0
        ways = groupby(self.stages, lambda each: (each.arrival or self.arrival, each.burst))
        for at, ((arrival, burst), stages) in enumerate(ways):
            for stage in stages:
                end += stage.area
            found = _arrivals(arrival, max(burst, self.burst), Random(self.seed + at), begin)
            yield from takewhile(end.__gt__, found)
            begin = end
        yield from repeat(inf)


def _arrivals(arrival: str, burst: int, random: Random, begin: float) -> Iterator[float]:
    """The areas from `begin` on at which queries are due."""
    if arrival == POISSON:
        draw, number = random.random, begin
        while True:
            number -= log(1.0 - draw())  # like Random.expovariate(1.0), inline
            yield number
    first = count(ceil(begin), burst if arrival == BURST else 1)
    yield from chain.from_iterable(map(repeat, first, repeat(burst))) if arrival == BURST else first


def read_stages(text: str, seconds: float | None) -> tuple[Stage, ...]:
    """Read -rate: `RATE`, `RATE..RATE` (a ramp) or several, each with `:TIME` or an equal part of -time.

    Raise LoadError.  `seconds` is -time; None if it was not given.
    """
    parts = [_read_part(part.strip()) for part in text.split(",")]
    given = sum(time for *_, time in parts if time is not None)
    shared = sum(time is None for *_, time in parts)
    if seconds is not None and not shared:
        raise LoadError(
            f'--time {duration_to_text(seconds)}: each rate of "{text}" has a time of its own; remove --time'
        )
    total = 10.0 if seconds is None else seconds
    rest = total if seconds is None else total - given
    if shared and rest <= 0:
        raise LoadError(
            f'--time {duration_to_text(total)}: the times in "{text}" leave nothing for the rates without one'
        )
    stages = [
        Stage(rest / shared if time is None else time, first, last) for first, last, time in parts
    ]
    if not any(stage.area >= 1 for stage in stages):
        raise LoadError(
            f'--rate "{text}": that is not one query; give a higher rate or a longer time'
        )
    return tuple(stages)


def read_arrival(text: str) -> tuple[str, int]:
    """Read -arrival: `even`, `poisson` or `burst=COUNT`; raise LoadError."""
    word, equals, value = text.partition("=")
    if word in (EVEN, POISSON) and not equals:
        return word, 1
    if word == BURST and value.isascii() and value.isdigit() and int(value) > 0:
        return word, int(value)
    meant = (
        did_you_mean(word, (EVEN, POISSON, BURST)) or "; there are even, poisson and burst=COUNT"
    )
    raise LoadError(f'--arrival: "{text}" is not an arrival process{meant}')


def _read_part(part: str) -> tuple[float, float, float | None]:
    rates, colon, time = part.partition(":")
    first, dots, last = rates.partition("..")
    seconds = parse_duration(time) if colon else None
    if colon and (seconds is None or seconds <= 0):
        raise LoadError(f'--rate: "{time}" in "{part}" is not a duration; write one such as 10s')
    return _read_rate(first, part), _read_rate(last if dots else first, part), seconds


def _read_rate(text: str, part: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1e9:
        raise LoadError(
            f'--rate: "{text}" in "{part}" is not a rate; write queries a second, such as 1000, 100..5000 or 1000:30s'
        )
    return rate
