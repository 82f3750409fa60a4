"""Limits the number of open connections and of the octets kept for them, and chooses which ones to close.

Path: opener.py has one for the clients of all listeners, http.py one for its pages, and each listener of doh.py one
within that of all listeners; without sockets and clocks.
Rule 1: if no place is free, the server closes a connection of the client with the most connections: the one that was
        silent longest, or the oldest if a query is in progress on all of them.  So a client with all places cannot keep
        other clients out.
Rule 2: a connection with a query in progress is only closed for a client with fewer connections; otherwise the server
        refuses the new connection.
Rule 3: the cost of a new connection does not depend on the number of places.
Rule 4: what clients have sent and the server cannot handle yet, and what it has written and they do not read, is
        limited over all connections together.  Beyond MAX_OCTETS, the server closes connections of the client that has
        most octets, the one first that has had some for longest.  It goes on until an eighth is free, so that it sorts
        the clients once for many connections.
"""

from __future__ import annotations

from heapq import heapify, heapreplace
from ipaddress import IPv6Address
from socket import AF_INET, inet_pton
from typing import Final, Protocol

MAX_TRIES: Final = 16  # connections with queries in progress that are skipped for a new one
# A fifth of the 170 MiB that kubeadm allows; 500 clients may each leave a reply of 64 KB unread.
MAX_OCTETS: Final = 32 * 1024 * 1024
# Octets that a connection may have uncounted in each direction, so that ordinary messages cost nothing; with the most
# connections 16 MiB.
FREE_OCTETS: Final = 1024


class Held(Protocol):
    """A connection that has a place."""

    @property
    def pending(self) -> int:
        """The number of queries in progress."""


class Closable(Protocol):
    """Its transport."""

    def get_write_buffer_size(self) -> int:
        """The number of octets that wait to be sent."""

    def close(self) -> None:
        """Close after the written data have been sent."""

    def abort(self) -> None:
        """Close at once."""


class Places:
    """At most `most` connections, with `octets` in all.

    With `within`, each connection also has a place in that one, which counts its octets and what is closed.
    `closed` counts those closed for new ones or for their octets, `refused` the new ones without a place.
    """

    def __init__(self, most: int, within: Places | None = None) -> None:
        self.most = most
        self._within = within
        self.octets = 0
        self.closed = self.refused = 0
        self._clients: dict[Held, bytes] = {}
        # The connections of each client, the one silent longest first.
        self._connections: dict[bytes, dict[Held, Closable]] = {}
        self._by_count: dict[int, dict[bytes, None]] = {}  # clients by their number of connections
        self._highest = 0
        # The connections with octets of each client, and the sum of these.
        self._holding: dict[bytes, dict[Held, int]] = {}
        self._sums: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def take(self, connection: Held, transport: Closable, address: str) -> bool:
        """Give a new connection a place, if necessary that of another one; return False if there is none."""
        client = client_of(address)
        if len(self._clients) >= self.most and not self._make_room(client):
            self.refused += 1
            return False
        if self._within is not None and not self._within.take(connection, transport, address):
            return False
        self._clients[connection] = client
        own = self._connections.setdefault(client, {})
        own[connection] = transport
        self._move(client, len(own) - 1, len(own))
        return True

    def touch(self, connection: Held) -> None:
        """Record that the client has just sent data."""
        client = self._clients.get(connection)
        if client is not None:
            own = self._connections[client]
            own[connection] = own.pop(connection)
        if self._within is not None:
            self._within.touch(connection)

    def release(self, connection: Held) -> None:
        """Free the place of a connection, if it still has one."""
        if self._within is not None:
            self._within.release(connection)
        client = self._clients.get(connection)
        if client is None:
            return
        self._count(connection, client, 0)
        del self._clients[connection]
        own = self._connections[client]
        del own[connection]
        if not own:
            del self._connections[client]
        self._move(client, len(own) + 1, len(own))

    def hold(self, connection: Held, octets: int) -> None:
        """Record how many octets are kept for a connection; if it is too much in all, close those of the heaviest."""
        if self._within is not None:
            self._within.hold(connection, octets)
            return
        client = self._clients.get(connection)
        if client is not None:
            self._count(connection, client, octets)
            if self.octets > MAX_OCTETS:
                self._shrink()

    def _count(self, connection: Held, client: bytes, octets: int) -> None:
        holding = self._holding.setdefault(client, {})
        more = octets - holding.get(connection, 0)
        if octets:
            holding[connection] = octets
        else:
            holding.pop(connection, None)
        self.octets += more
        if holding:
            self._sums[client] = self._sums.get(client, 0) + more
        else:
            del self._holding[client]
            self._sums.pop(client, None)

    def _shrink(self) -> None:
        heaviest = [(-octets, client) for client, octets in self._sums.items()]
        heapify(heaviest)
        while self.octets > MAX_OCTETS - MAX_OCTETS // 8:
            client = heaviest[0][1]
            connection = next(iter(self._holding[client]))
            self._close(connection, self._connections[client][connection], aborts=True)
            heapreplace(heaviest, (-self._sums.get(client, 0), client))

    def _make_room(self, client: bytes) -> bool:
        """Close a connection of the client with the most; return False if none may be closed."""
        for _ in range(min(MAX_TRIES, len(self._clients))):
            clients = self._by_count[self._highest]
            heaviest = next(iter(clients))
            own = self._connections[heaviest]
            connection = next(iter(own))
            if not connection.pending:
                self._close(connection, own[connection])
                return True
            own[connection] = own.pop(connection)
            clients[heaviest] = clients.pop(heaviest)
        if self._highest <= len(self._connections.get(client, ())) + 1:
            return False
        own = self._connections[next(iter(self._by_count[self._highest]))]
        self._close(*next(iter(own.items())))
        return True

    def _close(self, connection: Held, transport: Closable, *, aborts: bool = False) -> None:
        (self if self._within is None else self._within).closed += 1
        self.release(connection)
        if aborts or connection.pending or transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _move(self, client: bytes, before: int, after: int) -> None:
        """Move a client to the place for its number of connections."""
        if before:
            clients = self._by_count[before]
            del clients[client]
            if not clients:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[client] = None
        if after > self._highest or (before == self._highest and before not in self._by_count):
            self._highest = after


def client_of(address: str) -> bytes:
    """The client that an address belongs to: itself, or its IPv6 /64, because one host may use all addresses of one."""
    if ":" not in address:
        return inet_pton(AF_INET, address)
    found = IPv6Address(address)  # a link-local address has a scope, which `packed` leaves out
    mapped = found.ipv4_mapped
    return mapped.packed if mapped is not None else found.packed[:8]
