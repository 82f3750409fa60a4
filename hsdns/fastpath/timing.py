"""The times of a timed reply: one that `cache` has stored, and whose TTL decreases.

Path: step 2; entry.py writes the current TTL into the records.  Twin of native/src/timing.rs.
Rule 1: the TTL and the expiry are those of plugins/cache/store.py at the same time, so that the table's reply equals
        that of the chain.
"""

from __future__ import annotations

from typing import NamedTuple


class Timing(NamedTuple):
    """When `cache` has stored a reply, its TTL then, and when it expires; monotonic seconds.

    A TTL of 0 means that the TTLs of the records do not change.
    """

    stored: float
    ttl: int
    expires: float

    def left(self, now: float) -> int | None:
        """The remaining seconds, None if the reply has expired; 0 if TTLs do not change."""
        if now >= self.expires:
            return None
        left = self.ttl - self._age(now)
        return left if left > 0 else 0 if not self.ttl else None

    def next_change(self, now: float) -> float:
        """When that number changes."""
        return min(self.stored + self._age(now) + 1, self.expires) if self.ttl else self.expires

    def _age(self, now: float) -> int:
        return int(max(0.0, now - self.stored)) if self.ttl else 0
