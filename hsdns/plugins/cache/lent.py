"""The entries that the answer table may be sending.

Path: plugins/cache lends an entry to the answer table when it answers with it, and invalidates it there when it stores
another entry for the same question.
Rule: entries are identified by their counter only.  Entries with the same counter are invalidated together, which costs
      a lookup.
"""

from __future__ import annotations

from typing import Final

from hsdns.cluster.freshness import COUNT

_NUMBER_LEN: Final = 8


class LentEntries:
    """The time until which the answer table may send an entry, by the entry's counter; monotonic seconds."""

    def __init__(self) -> None:
        # Pages of it take memory when they are written to first.
        self._until = memoryview(bytearray(COUNT * _NUMBER_LEN)).cast("d")

    def add(self, counter: int, expires: float) -> None:
        """Record that an entry was lent."""
        self._until[counter] = max(self._until[counter], expires)

    def take(self, counter: int, now: float) -> bool:
        """Whether an entry may still be lent; it counts as returned."""
        until, self._until[counter] = self._until[counter], 0.0
        return until > now
