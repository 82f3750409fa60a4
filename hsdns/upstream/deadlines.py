"""Deadlines of many items with one timer for all of them, sans I/O.

Path: upstream/multiplexer.py has one for the queries without a reply.
Rule 1: the time is divided into ticks; items whose deadlines are in the same tick are due together, at its end.  So an
        item is due up to a tick late, and never early.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Items by deadline; all times in seconds of one clock."""

    def __init__(self, tick: float) -> None:
        self._tick = tick
        # By the number of the tick at whose start they are due, in the order in which they were added.
        self._items: dict[int, dict[T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, deadline: float, item: T) -> None:
        """Add an item."""
        self._items.setdefault(self._number(deadline), {})[item] = None

    def remove(self, deadline: float, item: T) -> None:
        """Remove an item that was added with this deadline; one that is not there is ignored."""
        number = self._number(deadline)
        items = self._items.get(number)
        if items is not None:
            items.pop(item, None)
            if not items:
                del self._items[number]

    def take_due(self, now: float) -> list[T]:
        """Remove and return the items whose deadlines have passed, those of earlier ticks first."""
        current = int(now / self._tick)
        numbers = sorted(number for number in self._items if number <= current)
        return [item for number in numbers for item in self._items.pop(number)]

    def _number(self, deadline: float) -> int:
        return int(deadline / self._tick) + 1
