"""The UDP queries that wait for data from elsewhere: their number, in all and for each client.

Path: udp_listener.py calls it before each query that the answer table could not answer.
Rule 1: a client (an IPv4 address or an IPv6 prefix of 64 bits) may have at most as many waiting queries as there is
        room left: a single client gets half of the room, and a client without a waiting query is accepted as long as
        there is any room.
"""

from __future__ import annotations

from typing import Final

# For one listener.  A forwarded query takes 10 KiB while it waits.
CAPACITY: Final = 4096


class PendingQueries:
    """The number of waiting queries, in all and for each client that has any."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.total = 0
        self._capacity = capacity
        self._of: dict[bytes, int] = {}

    def add(self, client: bytes) -> bool:
        """Add a query; return False if it exceeds the limit."""
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
