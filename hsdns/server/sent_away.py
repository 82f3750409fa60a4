"""Clients that were sent away for exceeding a limit, and are not let in again for a while.

Path: step 1 for HTTPS: doh.py asks before the TLS handshake, which costs more than all that is counted afterwards.
Rule 1: a client is an IPv4 address or the /64 of an IPv6 address, since a host may use all of those.
Rule 2: at most MAX_CLIENTS are remembered, those that were sent away last.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

REFUSED_SECONDS: Final = 10.0
MAX_CLIENTS: Final = 1024


class SentAway:
    """Remembers clients by address; `now` in seconds, of a monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}  # in the order of time

    def add(self, address: str, now: float) -> None:
        """Remember a client for REFUSED_SECONDS."""
        client = client_of(address)
        self._until.pop(client, None)
        self._until[client] = now + REFUSED_SECONDS
        if len(self._until) > MAX_CLIENTS:
            del self._until[next(iter(self._until))]

    def refuses(self, address: str, now: float) -> bool:
        """Whether a client is not to be let in yet."""
        while self._until:
            oldest = next(iter(self._until))
            if self._until[oldest] > now:
                return client_of(address) in self._until
            del self._until[oldest]
        return False


def client_of(address: str) -> bytes:
    """What an address is remembered by."""
    found = ip_address(address)  # a link-local address has a scope, which `packed` leaves out
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        return mapped.packed if mapped is not None else found.packed[:8]
    return found.packed
