"""What accepts TCP connections at one address, whatever is spoken on them.

Path: step 1 for TCP; tcp.py and doh.py make what speaks with one client.
Rule 1: connections are bounded by the places that all listeners share; time limits are looked at once a second
        (SWEEP_INTERVAL).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final, Protocol

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.metrics import Counter
from hsdns.query import QueryProcessor
from hsdns.server.listener_faults import NO_FAULTS
from hsdns.server.places import Places
from hsdns.server.sent_away import SentAway
from hsdns.server.settings import DEFAULT_SETTINGS, Settings
from hsdns.server.shares import MAX_CLIENTS
from hsdns.server.sockets import BACKLOG, endpoint_of
from hsdns.server.tls import TlsConnection
from hsdns.server.turns import Turns

SWEEP_INTERVAL: Final = 1.0  # seconds


class Connection(Protocol):
    """A client's connection, as its listener sees it."""

    @property
    def pending(self) -> int:
        """How many queries have no answer yet."""

    def expire(self, now: float) -> None:
        """Close if the client has sent nothing, sent too slowly or not read its replies for too long."""

    def end(self) -> None:
        """Take no more queries, send the end, and close when the client does."""

    def close(self) -> None:
        """Close after what was written has gone out."""

    def abort(self) -> None:
        """Close at once."""


class TcpListener:
    """Accepts on one bound TCP socket; `processor` and `settings` may be exchanged at any time.

    `places` and `turns` are those that all listeners of the process share, and `sent_away` that of those with TLS;
    `faults` is what rules of faults do at them.
    """

    faults = NO_FAULTS

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        spawn: eager.Spawn,
        clock: Callable[[], float],
        rejected: Counter,
        places: Places | None = None,
        settings: Settings = DEFAULT_SETTINGS,
        turns: Turns | None = None,
        sent_away: SentAway | None = None,
    ) -> None:
        self.processor = processor
        self.settings = settings
        self.spawn = spawn
        self.clock = clock
        self.turns = (
            Turns(clock, lambda call: asyncio.get_running_loop().call_soon(call))
            if turns is None
            else turns
        )
        self.connections: set[Connection] = set()
        self._sock = sock
        self._rejected = rejected
        self._places = Places(MAX_CLIENTS) if places is None else places
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._sent_away = sent_away

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        # What waits is accepted in one turn, in which no connection that makes room can close.
        backlog = min(BACKLOG, max(1, self._places.most // 4))
        self._server = await loop.create_server(self._begin, sock=self._sock, backlog=backlog)
        self._sweeper = loop.call_later(SWEEP_INTERVAL, self._sweep)

    def stop_accepting(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def end(self) -> None:
        """End the connections; a client that is sent the end before its connection closes sees no reset."""
        for connection in tuple(self.connections):
            connection.end()

    def close(self) -> None:
        """Close all; a client that does not read what it was sent has its time limit, and no more."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close()
        self._is_closed = True
        if not self.connections and self._sweeper is not None:
            self._sweeper.cancel()

    def kill(self) -> None:
        """Close all at once, as the kernel does for a process that has ended."""
        for connection in tuple(self.connections):
            connection.abort()
        self.close()

    @property
    def sock(self) -> socket.socket:
        """The listening socket, for its options; only this listener accepts from it."""
        return self._sock

    @property
    def pending(self) -> int:
        """How many queries have no answer yet."""
        return sum(connection.pending for connection in self.connections)

    def admit(
        self, connection: Connection, transport: asyncio.Transport
    ) -> tuple[Endpoint, Endpoint] | None:
        """Register a new connection and return its endpoints; abort it where there are too many, or it has ended.

        So it is if its client was sent away, or has opened too many in a short time.

        A connection that was accepted right before the listener closed is aborted too: it would never be ended.
        """
        client, local = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        if client is not None and local is not None and not self._is_closed:
            most = self.settings.max_connections
            ends = endpoint_of(client), endpoint_of(local)
            is_full = 0 < most <= len(self.connections)
            is_refused = self._sent_away is not None and not self._sent_away.admits(
                ends[0].address, self.clock()
            )
            if (
                not is_full
                and not is_refused
                and self._places.take(connection, transport, ends[0].address)
            ):
                self.connections.add(connection)
                return ends
            self._rejected.inc()
        transport.abort()
        return None

    def touch(self, connection: Connection) -> None:
        """Note that the client of a connection has just sent something."""
        self._places.touch(connection)

    def discard(self, connection: Connection) -> None:
        """Forget a connection."""
        self.connections.discard(connection)
        self._places.release(connection)

    def make_connection(self) -> asyncio.Protocol:
        """Make what speaks with one client."""
        raise NotImplementedError

    def wrap(self, connection: asyncio.Protocol) -> asyncio.Protocol:
        """Put TLS around what speaks with one client, where there is any."""
        tls = self.settings.tls
        if tls is None:
            return connection
        return TlsConnection(connection, tls, add_fault=self.add_fault)

    def _begin(self) -> asyncio.Protocol:
        connect = self.faults.connect
        return self.wrap(self.make_connection()) if connect is None else connect(self)

    def add_fault(self, transport: asyncio.Transport) -> None:
        """Note that the client of a connection has broken its protocol."""
        peer = transport.get_extra_info("peername")
        if self._sent_away is not None and peer:
            self._sent_away.add_fault(peer[0], self.clock())

    def _sweep(self) -> None:
        now = self.clock()
        for connection in tuple(self.connections):
            connection.expire(now)
        if self._is_closed and not self.connections:
            return
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_INTERVAL, self._sweep)
