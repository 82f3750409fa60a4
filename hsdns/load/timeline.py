"""What was true of one thing at which time.

Path: truth.py has one for each Service and address that is asked for; judge.py reads it.
Rule: one thread adds states and others read: a reader takes `states` once, and what it has taken is only added to.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Generic, NamedTuple, TypeVar

V = TypeVar("V")
MOST: Final = 4096  # states that are remembered


class States(NamedTuple, Generic[V]):
    """Times of the monotonic clock in seconds, and what was true from each on; `base` older ones are forgotten."""

    base: int
    since: list[float]
    values: list[V]


class Timeline(Generic[V]):
    """The states of one thing; the first one was true before all that is judged."""

    __slots__ = ("states",)

    def __init__(self, value: V) -> None:
        self.states: States[V] = States(0, [float("-inf")], [value])

    def add(self, time: float, value: V) -> None:
        """Something else is true from now on."""
        base, since, values = self.states
        if len(since) >= MOST:
            half = len(since) // 2
            self.states = base, since, values = States(base + half, since[half:], values[half:])
        values.append(value)  # before its time: a reader goes by the times
        since.append(time)

    def forget(self, before: float) -> int:
        """Forget the states that had ended by a time; return how many are left."""
        base, since, values = self.states
        at = bisect_right(since, before) - 1
        if at > 0:
            self.states = States(base + at, since[at:], values[at:])
        return len(self.states.since)

    @property
    def latest(self) -> V:
        """What is true now."""
        return self.states.values[-1]
