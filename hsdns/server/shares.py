"""Divides the file descriptors of the process between the kinds of connections.

Path: lifecycle.py divides them; places.py enforces each share.
Rule 1: the shares add up to less than the limit, so that one kind of connection cannot use the descriptors of another.
        The rest is for upstreams, the API server, files and listening sockets.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from hsdns.metrics import Registry
from hsdns.server.places import Places

MAX_CLIENTS: Final = 8192  # idle 3.7 KB each over TCP, 30 MB in all; places.py limits the rest
# A kubelet's probe sends its request 30 ms after it has connected; at 4,000 new connections a second 512 last 128 ms,
# and the 128 of a process with 512 descriptors 32 ms.
MAX_PAGES: Final = 512
MAX_RESERVED: Final = (
    4096 + 1024
)  # upstreams; new connections that are accepted before others have closed


class Shares(NamedTuple):
    """The limit for each kind of connection that clients open."""

    clients: Places
    pages: Places

    @classmethod
    def of(cls, limit: int) -> Self:
        """Divide a number of descriptors."""
        pages = max(8, min(MAX_PAGES, limit // 4))
        reserved = min(MAX_RESERVED, limit * 3 // 8)
        return cls(Places(max(16, min(MAX_CLIENTS, limit - pages - reserved))), Places(pages))

    def count_in(self, metrics: Registry) -> None:
        """Export the shares as metrics."""
        is_open = metrics.gauge(
            "hsdns_connections", "Open connections of clients and to HTTP pages.", ("share",)
        )
        most = metrics.gauge(
            "hsdns_connections_max", "How many of them may be open at once.", ("share",)
        )
        closed = metrics.counter(
            "hsdns_connections_closed_total",
            "Connections closed to make room for new ones, or because too many octets were kept.",
            ("share",),
        )
        shares = {("clients",): self.clients, ("pages",): self.pages}
        for labels, places in shares.items():
            most.set(places.most, labels)

        def count() -> None:
            for labels, places in shares.items():
                is_open.set(len(places), labels)
                closed.values[labels] = places.closed

        metrics.before_collect(count)
