"""Conditions on five-tuples: the transport, and address and port of both sides.

Path: words.py creates them -> rule.py calls note() for every query of the server, then matches() as for selector.py.
Rule 1: queries answered from the answer table are not noted, so a rule knows five-tuples only since it was added.
Rule 2: at most MAX_REMEMBERED five-tuples are remembered; the oldest is forgotten first.
Source: netfilter's connection tracking, where two first datagrams of one five-tuple race for one entry.
"""

from __future__ import annotations

from random import Random

from hsdns.faults.asked import Asked
from hsdns.faults.selector import MAX_REMEMBERED, Selector

Key = tuple[str, str, int, str]


class Flow(Selector):
    """A condition on the five-tuple of a query."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = {}  # first time, number of queries

    def note(self, asked: Asked, age: float) -> None:
        """Count the query for its five-tuple."""
        key = _key(asked)
        found = self._seen.get(key)
        if found is not None:
            found[1] += 1
            return
        if len(self._seen) >= MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = [age, 1]

    def matches(self, asked: Asked, age: float, random: Random) -> bool:
        """Whether the five-tuple of a noted query meets the condition."""
        began, count = self._seen[_key(asked)]
        return self.holds(age, began, count)

    def foresee(self, asked: Asked, age: float) -> bool | None:
        """Return None, because the result depends on earlier queries."""
        return None

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether a five-tuple meets the condition; `began` is the age of the rule at its first query, in seconds."""
        raise NotImplementedError


class FirstOfFlow(Flow):
    """The first query of a five-tuple."""

    text = "flow first"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether it is the first."""
        return count == 1


class SecondOfFlow(Flow):
    """The second query of a five-tuple, if it comes soon after the first."""

    def __init__(self, seconds: float, shown: str) -> None:
        super().__init__()
        self.seconds = seconds
        self.text = f"flow second {shown}"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether it is the second, in time."""
        return count == 2 and age - began <= self.seconds


class FlowSince(Flow):
    """From a given age of the rule on, the queries of five-tuples that were seen before it, or of all others."""

    def __init__(self, word: str, seconds: float, shown: str) -> None:
        super().__init__()
        self.word, self.seconds = word, seconds
        self.text = f"flow {word} {shown}"

    def holds(self, age: float, began: float, count: float) -> bool:
        """Whether the rule is old enough, and the five-tuple was, or was not, seen before."""
        return age >= self.seconds and (began < self.seconds) == (self.word == "existing")


def _key(asked: Asked) -> Key:
    return asked.server + asked.transport, asked.client.address, asked.client.port, asked.local
