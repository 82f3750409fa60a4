"""The queries over UDP that wait for an answer from elsewhere: how many, and whose.

Path: udp_listener.py asks before each query that the answer table did not know.
Rule 1: a client (an IPv4 address or an IPv6 prefix of 64 bits) may have as many as there is room left, and no more: one
        alone gets half of all, and one that has none gets in as long as there is any room.
"""

from __future__ import annotations

from typing import Final

# Of one listener.  A forwarded query takes 10 KiB while it waits.
CAPACITY: Final = 4096


class PendingQueries:
    """The number of queries that wait, in all and of each client that has any."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.total = 0
        self._capacity = capacity
        self._of: dict[bytes, int] = {}

    def add(self, client: bytes) -> bool:
        """Add a query; False if it is one too many."""
        own = self._of.get(client, 0)
        if own >= self._capacity - self.total:
            return False
        self._of[client] = own + 1
        self.total += 1
        return True

    def remove(self, client: bytes) -> None:
        """Remove a query that was added."""
        own = self._of[client]
        if own > 1:
            self._of[client] = own - 1
        else:
            del self._of[client]
        self.total -= 1
