"""Clients of TLS and HTTPS that were sent away for exceeding a limit, and are not let in again for a while.

Path: step 1 for TLS and HTTPS: tcp_listener.py asks before the handshake, which costs more than what follows.
Rule 1: a client is an IPv4 address or the /64 of an IPv6 address, since a host may use all of those.
Rule 2: at most MAX_CLIENTS are remembered, those that were sent away last, and as many that have connected last.
Rule 3: a client has a credit of CREDIT points, of which CREDIT_A_SECOND come back.  A connection costs one of them, and
        a fault in TLS or HTTP/2 FAULT.  Without credit no connection is let in, and a fault sends the client away.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

REFUSED_SECONDS: Final = 10.0
MAX_CLIENTS: Final = 1024
# The clients of a node may share an address, and all connect at once when the server has started.
CREDIT: Final = 512
CREDIT_A_SECOND: Final = 128
FAULT: Final = 16


class SentAway:
    """Remembers clients by address; `now` in seconds, of a monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}  # in the order of time
        # What is left of the credit of a client, and since when, in the order of use.
        self._credit: dict[bytes, tuple[float, float]] = {}

    def add(self, address: str, now: float) -> None:
        """Remember a client for REFUSED_SECONDS."""
        client = client_of(address)
        self._until.pop(client, None)
        self._until[client] = now + REFUSED_SECONDS
        if len(self._until) > MAX_CLIENTS:
            del self._until[next(iter(self._until))]

    def admits(self, address: str, now: float) -> bool:
        """Whether a client may connect now; it costs of its credit if so."""
        return not self.refuses(address, now) and self._spend(address, 1, now)

    def add_fault(self, address: str, now: float) -> None:
        """Note that a client has broken TLS or HTTP/2; it is sent away if it does so again and again."""
        if not self._spend(address, FAULT, now):
            self.add(address, now)

    def _spend(self, address: str, points: int, now: float) -> bool:
        client = client_of(address)
        credit, since = self._credit.pop(client, (CREDIT, now))
        credit = min(CREDIT, credit + (now - since) * CREDIT_A_SECOND)
        has_enough = credit >= points
        self._credit[client] = (credit - points if has_enough else credit), now
        if len(self._credit) > MAX_CLIENTS:
            del self._credit[next(iter(self._credit))]
        return has_enough

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
