"""How fast the clients of an address may connect over TLS or HTTPS: its credit, in seconds of the event loop.

Path: step 1 for TLS and HTTPS: tcp_listener.py asks before the TLS handshake, which costs more than the rest; doh.py
charges the work for a connection that it had to close.  Without sockets and clocks.
Rule 1: no address is refused for what a connection did, because it may be that of many clients: of a node, behind an
        ingress or SNAT.  Without credit, its connections begin later, in order.  One that would wait for more than
        MAX_WAIT is closed.
Rule 2: a client is a whole address.  The addresses of an IPv6 /64 together have the credit of MANY, because one host
        may use all of them.
Rule 3: at most MAX_CLIENTS are remembered, those that have connected last.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

from hsdns.server.places import client_of

CONNECTION: Final = 0.001  # seconds: for a handshake, with some reserve for a large key
FRAME: Final = 0.00001
OCTET: Final = 0.00000002
# The clients of a node may share an address, and all connect at once after the server has started.
CREDIT: Final = 0.5
CREDIT_A_SECOND: Final = 0.25
MANY: Final = 4
MAX_WAIT: Final = 2.0  # seconds, less than the timeout of most clients
MAX_CLIENTS: Final = 1024
IPV4_LEN: Final = 4  # octets


class Credit:
    """The credits of all addresses; `now` in seconds, of a monotonic clock."""

    def __init__(self) -> None:
        # The rest of each with the time of its last change, in the order of use; below 0 for connections that wait.
        self._left: dict[bytes, tuple[float, float]] = {}

    def connect(self, address: str, now: float) -> float | None:
        """Charge for a new connection; return after how many seconds it may begin, None if that is too long."""
        owners = _owners_of(address)
        longest = 0.0
        for owner, share in owners:
            longest = max(longest, -self._at(owner, share, now) / (CREDIT_A_SECOND * share))
        if longest > MAX_WAIT:
            return None
        for owner, share in owners:
            self._set(owner, self._at(owner, share, now) - CONNECTION, now)
        return longest

    def charge(self, address: str, frames: int, octets: int, now: float) -> None:
        """Charge for the work for a connection.

        However much it was, the next connection waits for MAX_WAIT at most.
        """
        for owner, share in _owners_of(address):
            left = self._at(owner, share, now)
            least = min(left, -MAX_WAIT * CREDIT_A_SECOND * share)
            self._set(owner, max(least, left - frames * FRAME - octets * OCTET), now)

    def _at(self, owner: bytes, share: int, now: float) -> float:
        left, since = self._left.get(owner, (CREDIT * share, now))
        return min(CREDIT * share, left + (now - since) * CREDIT_A_SECOND * share)

    def _set(self, owner: bytes, left: float, now: float) -> None:
        self._left.pop(owner, None)
        self._left[owner] = left, now
        if len(self._left) > MAX_CLIENTS:
            del self._left[next(iter(self._left))]


def _owners_of(address: str) -> list[tuple[bytes, int]]:
    """The address, and the /64 that it is in; each with its share of credit."""
    client = client_of(address)
    if len(client) == IPV4_LEN:
        return [(client, 1)]
    return [(IPv6Address(address).packed, 1), (client, MANY)]
