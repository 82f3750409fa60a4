"""The time of a timed reply: one that `cache` has stored, whose TTL is counted down.

Path: step 2; entry.py has the TTL of now written into the records.  Twin of native/src/timing.rs.
Rule 1: the TTL and its end are those of plugins/cache/store.py at the same time, so that a reply of the table is what
        the chain would send.
"""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """When a reply was stored by `cache`, its TTL then, and from when on it is no hit; monotonic seconds.

    A TTL of 0 stands for records whose TTLs stay as they are.
    """

    stored: float
    ttl: int
    expires: float

    def left(self, now: float) -> int | None:
        """The seconds that are left, None if the reply has expired; 0 where TTLs stay."""
        if now >= self.expires:
            return None
        left = self.ttl - self._age(now)
        return left if left > 0 else 0 if not self.ttl else None

    def next_change(self, now: float) -> float:
        """When that number changes."""
        return min(self.stored + self._age(now) + 1, self.expires) if self.ttl else self.expires

    def _age(self, now: float) -> int:
        return int(max(0.0, now - self.stored)) if self.ttl else 0
