"""The search for the highest rate at which limits hold: the knee.

Path: cli/load.py carries out each step as a separate run -> here, which returns the next one.
Rule 1: a rate is tried until one run holds, two have broken, or three decided nothing: other work of the machine can
        break a run, but cannot make one hold.
Rule 2: the rate rises (or falls) by a factor until one rate holds and one does not; then the middle of the two is tried
        until they are WIDTH apart.
Rule 3: at the end both are tried again, for CONFIRMED times as long.  If one is not confirmed, the search continues
        from there with steps of that length: only these detect a queue that grows slowly.
Rule 4: a run decides nothing if the generator was the limit, or if it broke while other processes had more than OTHERS
        of a CPU of the machine that the server is on too.  Then the search ends with what is known.

No clock and no socket: step_ended() passes the outcome of each step.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import ceil, floor, log10, sqrt
from typing import Final, NamedTuple

from hsdns.load.limits import LATENCIES, LATENESS, Limit, Measured, is_met

HELD: Final = "held"
BROKEN: Final = "broken"
GENERATOR: Final = "generator"
BUSY: Final = "busy"

WIDTH: Final = 1.01  # between a rate that holds and one that does not
UP: Final = 2.0
DOWN: Final = 4.0
LEAST: Final = 10.0  # queries a second
BREAKS: Final = 2  # broken runs that decide, unless one holds
CONFIRMED: Final = 2  # times as long
UNDECIDED: Final = 3  # runs that decide nothing, after which the search ends
OTHERS: Final = 0.05
MOST_STEPS: Final = 200

SHORTEST: Final = 2.0  # minimum seconds of a step
LONGEST: Final = 30.0
ABOVE: Final = 100  # queries that must be above a percentile for it to be meaningful


class Step(NamedTuple):
    """A run to carry out: queries per second, and seconds."""

    rate: float
    seconds: float


class Knee(NamedTuple):
    """The result: a rate at which the limits held, and one at which they did not, if there are any.

    `found`: they are at most WIDTH apart, and confirmed.  `sentence` says it.
    """

    found: bool
    holds: float | None
    breaks: float | None
    sentence: str


class KneeSearch:
    """The search from a `first` rate up to a `ceiling`; a step has `queries`, if possible, and `shortest` seconds."""

    def __init__(
        self, first: float, ceiling: float, queries: int, shortest: float = SHORTEST
    ) -> None:
        self.holds: float | None = None
        self.breaks: float | None = None
        self._ceiling = ceiling
        self._queries = queries
        self._shortest = shortest
        self._given_up = ""
        self._found = False
        self._length = 1
        self._confirmed: set[float] = set()  # rates tried in the longer runs of Rule 3
        self._steps = 0
        self._search = self._run(min(first, ceiling))
        self.step: Step | None = next(self._search)  # the next one, None at the end

    def step_ended(self, outcome: str) -> None:
        """Set the outcome of the step: HELD, BROKEN, GENERATOR or BUSY."""
        self._steps += 1
        try:
            self.step = self._search.send(outcome)
        except StopIteration:
            self.step = None
            return
        if self._steps >= MOST_STEPS:
            self._given_up = (
                f"the figures differ from run to run: no rate was found in {self._steps} of them"
            )
            self.step = None

    def knee(self) -> Knee:
        """The result so far."""
        known = self._known()
        if self._found:
            sentence = (
                f"the knee is at {self.holds:.10g} queries a second: "
                f"the limits hold there, and not at {self.breaks:.10g}"
            )
        elif self._given_up:
            sentence = f"{self._given_up}; {known}" if known else self._given_up
        else:
            sentence = f"the search did not end; {known}" if known else "the search did not end"
        return Knee(self._found, self.holds, self.breaks, sentence)

    def _known(self) -> str:
        holds, breaks = self.holds, self.breaks
        if holds is not None and breaks is not None:
            return f"the limits hold at {holds:.10g} queries a second, and not at {breaks:.10g}"
        if holds is not None:
            return f"the limits hold at {holds:.10g} queries a second"
        if breaks is not None:
            return f"the limits do not hold at {breaks:.10g} queries a second"
        return ""

    def _run(self, first: float) -> Generator[Step, str, None]:
        yield from self._narrow(first)
        self._length = CONFIRMED
        while not self._given_up:
            holds, breaks = self.holds, self.breaks
            assert holds is not None, "there is a bracket"
            assert breaks is not None, "there is a bracket"
            if breaks not in self._confirmed:
                if (yield from self._try(breaks)) == HELD:  # something else had broken it
                    self.breaks = None
                    yield from self._narrow(breaks, sqrt(WIDTH))
            elif holds not in self._confirmed:
                if (yield from self._try(holds)) == BROKEN:
                    self.holds = None
                    yield from self._narrow(holds, sqrt(WIDTH))
            else:
                self._found = True
                return

    def _narrow(self, rate: float, factor: float = 0.0) -> Generator[Step, str, None]:
        """Continue from a rate until one that holds and one that does not are at most WIDTH apart."""
        yield from self._bracket(rate, factor)
        while not self._given_up and self.holds is not None and self.breaks is not None:
            middle = _rounded(sqrt(self.holds * self.breaks))
            if self.breaks / self.holds <= WIDTH or not self.holds < middle < self.breaks:
                return
            yield from self._try(middle)

    def _bracket(self, rate: float, factor: float = 0.0) -> Generator[Step, str, None]:
        """Continue from a rate until one holds and one does not; the factor grows from `factor`."""
        up, down = factor or UP, factor or DOWN
        if self.holds is None and self.breaks is None:
            yield from self._try(rate)
        while not self._given_up and (self.holds is None or self.breaks is None):
            if self.breaks is None:
                assert self.holds is not None, "one of the two is known"
                if self.holds >= self._ceiling:
                    self._given_up = "the knee is above the ceiling, which --max-rate lifts"
                    return
                yield from self._try(min(_rounded(self.holds * up), self._ceiling))
                up = min(up * up, UP)
            else:
                if self.breaks <= LEAST:
                    self._given_up = f"no rate from {LEAST:g} queries a second on holds the limits"
                    return
                yield from self._try(max(_rounded(self.breaks / down), LEAST))
                down = min(down * down, DOWN)

    def _try(self, rate: float) -> Generator[Step, str, str]:
        """Try a rate; record and return the outcome."""
        seconds = min(max(self._shortest, ceil(self._queries / rate)), max(LONGEST, self._shortest))
        counts = {BROKEN: 0, GENERATOR: 0, BUSY: 0}
        if self._length > 1:
            self._confirmed.add(rate)
        while counts[BROKEN] < BREAKS and counts[GENERATOR] + counts[BUSY] < UNDECIDED:
            outcome = yield Step(rate, seconds * self._length)
            if outcome == HELD:
                self.holds = rate
                return HELD
            counts[outcome] += 1
        if counts[BROKEN] == BREAKS:
            self.breaks = rate
            return BROKEN
        self._given_up = f"the generator was the limit at {rate:.10g} queries a second"
        if counts[BUSY] > counts[GENERATOR]:
            self._given_up = (
                f"other processes kept the machine busy at {rate:.10g} queries a second"
            )
        elif self.breaks is None and self.holds is not None:
            self._given_up = f"the knee is above {self.holds:.10g}: the generator is the limit"
        return GENERATOR


def outcome_of(
    limits: Sequence[Limit], measured: Measured, *, answered: int, kept: bool, others: float = 0.0
) -> str:
    """The outcome of a step; `kept`: the generator sent what was due, and none of its own limits ended the step.

    `others` is the share of a CPU that other processes had on the machine of generator and server.
    """
    met = {limit: is_met(limit, measured) for limit in limits}
    broken = [limit.metric for limit, is_broken in met.items() if is_broken]
    if any(metric not in LATENESS for metric in broken):
        return BUSY if others > OTHERS else BROKEN
    if not kept or broken:
        return GENERATOR
    if None in met.values():
        return GENERATOR if answered else BROKEN
    return HELD


def queries_for(limits: Sequence[Limit]) -> int:
    """How many queries a step needs for meaningful figures."""
    most = ABOVE
    for limit in limits:
        if limit.metric in (*LATENCIES, *LATENESS):
            name = limit.metric.removeprefix("late.")
            percent = 99.0 if name == "max" else float(name.removeprefix("p"))
            most = max(most, round(ABOVE / (1 - percent / 100)))
        elif limit.unit == "%" and limit.value:
            most = max(most, min(ceil(round(100 / limit.value, 6)), 1_000_000))
    return most


def _rounded(rate: float) -> float:
    """A rate with four digits."""
    digits = 3 - floor(log10(rate))
    return float(round(rate, digits))
