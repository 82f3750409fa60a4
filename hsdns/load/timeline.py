"""The states of one subject over time.

Path: truth.py has one for each Service and address in the questions; judge.py reads it.
Rule: one thread adds states and others read: a reader takes `states` once, and later changes only append to it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Generic, NamedTuple, TypeVar

V = TypeVar("V")
MOST: Final = 4096  # states that are stored


class States(NamedTuple, Generic[V]):
    """Times in monotonic seconds, and the state from each on; `base` older states were dropped."""

    base: int
    since: list[float]
    values: list[V]


class Timeline(Generic[V]):
    """The states of one subject; the first one was true before all judged answers."""

    __slots__ = ("states",)

    def __init__(self, value: V) -> None:
        self.states: States[V] = States(0, [float("-inf")], [value])

    def add(self, time: float, value: V) -> None:
        """Add a state that is true from `time` on."""
        base, since, values = self.states
        if len(since) >= MOST:
            half = len(since) // 2
            self.states = base, since, values = States(base + half, since[half:], values[half:])
        values.append(value)  # before its time: readers use the number of times
        since.append(time)

    def forget(self, before: float) -> int:
        """Drop the states that had ended by a time; return how many are left."""
        base, since, values = self.states
        at = bisect_right(since, before) - 1
        if at > 0:
            self.states = States(base + at, since[at:], values[at:])
        return len(self.states.since)

    @property
    def latest(self) -> V:
        """The current state."""
        return self.states.values[-1]
