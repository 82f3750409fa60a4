"""Refuses TLS and HTTPS clients for a while after they have exceeded a limit.

Path: step 1 for TLS and HTTPS: tcp_listener.py checks a client before the TLS handshake, which costs more than the
rest.
Rule 1: a client is an IPv4 address or the /64 of an IPv6 address, because one host may use all addresses of a /64.
Rule 2: at most MAX_CLIENTS are remembered: those that were refused last, and as many that have connected last.
Rule 3: a client has a credit of CREDIT points, which grows by CREDIT_A_SECOND up to that number.  A connection costs
        one point, a violation of TLS or HTTP/2 costs FAULT.  Without credit, no connection is accepted, and a violation
        gets the client refused.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from socket import AF_INET, inet_pton
from typing import Final

REFUSED_SECONDS: Final = 10.0
MAX_CLIENTS: Final = 1024
# The clients of a node may share an address, and all connect at once after the server has started.
CREDIT: Final = 512
CREDIT_A_SECOND: Final = 128
FAULT: Final = 16


class SentAway:
    """Remembers clients by address; `now` in seconds, of a monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[bytes, float] = {}  # in the order of time
        # The remaining credit of a client with the time of its last change, in the order of use.
        self._credit: dict[bytes, tuple[float, float]] = {}

    def add(self, address: str, now: float) -> None:
        """Refuse a client for REFUSED_SECONDS."""
        client = client_of(address)
        self._until.pop(client, None)
        self._until[client] = now + REFUSED_SECONDS
        if len(self._until) > MAX_CLIENTS:
            del self._until[next(iter(self._until))]

    def admits(self, address: str, now: float) -> bool:
        """Whether a client may connect now; if so, its credit is reduced."""
        return not self.refuses(address, now) and self._spend(address, 1, now)

    def add_fault(self, address: str, now: float) -> None:
        """Record that a client has violated TLS or HTTP/2; repeated violations get it refused."""
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
        """Whether a client is still refused."""
        while self._until:
            oldest = next(iter(self._until))
            if self._until[oldest] > now:
                return client_of(address) in self._until
            del self._until[oldest]
        return False


def client_of(address: str) -> bytes:
    """The key of an address: the client that it belongs to."""
    if ":" not in address:
        return inet_pton(AF_INET, address)
    found = IPv6Address(address)  # a link-local address has a scope, which `packed` leaves out
    mapped = found.ipv4_mapped
    return mapped.packed if mapped is not None else found.packed[:8]
