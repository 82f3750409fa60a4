"""Queries of clients: each has a socket or a connection of its own, and its own source address if it was given one.

Path: process.py -> here, in place of udp.py's order of sockets and the turn of connection.py's pool.
Rule 1: the queries of a client leave from its socket, in the order of the schedule; its IDs follow each other.
Rule 2: a client has one connection at a time, which its next query opens.  A query waits only for its own client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field

from hsdns.load.send.connection import Client, Pool
from hsdns.load.send.loop import Query
from hsdns.load.send.udp import IDS, UdpTransport


@dataclass
class ClientSockets(UdpTransport):
    """Queries over a socket for each client; `asking` has the number of the client of each query."""

    _: KW_ONLY
    asking: Iterator[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ids_used = list(self.first_ids)

    def ask(self, query: Query) -> None:
        """Take a query."""
        client = query.client = next(self.asking)
        key = self._ids_used[client]
        self._ids_used[client] = (key + 1) % IDS
        query.key = client << 16 | key
        if self._leaving and self._leaving[-1][1].key >> 16 != client:
            self._send()
        self._leaving.append((self._next, query))
        self._next += 1


@dataclass(eq=False)
class ClientPool(Pool):
    """A connection for each client; `sources` are their addresses, "" for that of the system."""

    _: KW_ONLY
    asking: Iterator[int]
    sources: list[str]
    _waiting: dict[int, deque[Query]] = field(default_factory=dict)  # for room, by client

    def __post_init__(self) -> None:
        super().__post_init__()
        self._clients = [Client(source=each) for each in self.sources]

    def ask(self, query: Query) -> None:
        """Take a query."""
        query.client = next(self.asking)
        super().ask(query)

    def _place(self, query: Query) -> bool:
        return self._place_at(self._clients[query.client], query)

    def _place_or_wait(self, query: Query) -> None:
        if query.client in self._waiting or not self._place(query):
            self._waiting.setdefault(query.client, deque()).append(query)

    def _serve_backlog(self) -> None:
        for number, waiting in list(self._waiting.items()):
            while waiting and (waiting[0].is_over or self._place(waiting[0])):
                waiting.popleft()
            if not waiting:
                del self._waiting[number]

    def _list(self, client: Client) -> None:
        """No client is in turn."""
