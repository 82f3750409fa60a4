"""Accepts TCP connections at one address, for DNS and HTTPS.

Path: step 1 for TCP; tcp.py and doh.py make the protocol of each connection.
Rule 1: the number of connections and of the octets kept for them is limited over all listeners (admission.py); timeouts
        are checked once a second (SWEEP_INTERVAL).
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable
from typing import Final, Protocol

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.metrics import Counter
from hsdns.query import QueryProcessor
from hsdns.server.admission import MAX_CLIENTS, Credit, Places, Turns
from hsdns.server.listener_faults import NO_FAULTS
from hsdns.server.settings import DEFAULT_SETTINGS, Settings
from hsdns.server.sockets import BACKLOG, endpoint_of
from hsdns.server.tls import TlsConnection
from hsdns.turns import Timer

SWEEP_INTERVAL: Final = 1.0  # seconds


class Connection(Protocol):
    """The listener's interface to a connection."""

    @property
    def pending(self) -> int:
        """The number of queries in progress."""

    def expire(self, now: float) -> None:
        """Close if the client was silent, sent too slowly or did not read its replies for too long."""

    def end(self) -> None:
        """Accept no more queries, half-close the connection, and close it when the client does."""

    def close(self) -> None:
        """Close after the written data have been sent."""

    def abort(self) -> None:
        """Close at once."""


class TcpListener:
    """Accepts on one bound TCP socket; `processor` and `settings` may be replaced at any time.

    All listeners of the process share `places` and `turns`, those with TLS have a `credit`; `faults` has the effects
    of rules of faults on it.
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
        credit: Credit | None = None,
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
        self._sweeper: Timer | None = None
        self._is_closed = False
        self._credit = credit

    async def start(self) -> None:
        """Start accepting."""
        loop = asyncio.get_running_loop()
        # All waiting connections are accepted in one iteration of the loop; connections that are closed to make room
        # for them only close after it.
        backlog = min(BACKLOG, max(1, self._places.most // 4))
        self._server = await loop.create_server(self._begin, sock=self._sock, backlog=backlog)
        self._sweeper = Timer(loop, SWEEP_INTERVAL, self._sweep)

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones continue."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def end(self) -> None:
        """End the connections; a client that is told the end before its connection closes gets no reset."""
        for connection in tuple(self.connections):
            connection.end()

    def close(self) -> None:
        """Close all connections; a client that does not read its replies has until its timeout, and no longer."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close()
        self._is_closed = True
        if not self.connections and self._sweeper is not None:
            self._sweeper.cancel()

    def kill(self) -> None:
        """Close all connections at once, as the kernel does for a process that has ended."""
        for connection in tuple(self.connections):
            connection.abort()
        self.close()

    @property
    def sock(self) -> socket.socket:
        """The listening socket, for its options; only this listener accepts from it."""
        return self._sock

    @property
    def pending(self) -> int:
        """The number of queries in progress."""
        return sum(connection.pending for connection in self.connections)

    def admit(
        self, connection: Connection, transport: asyncio.Transport
    ) -> tuple[Endpoint, Endpoint] | None:
        """Register a new connection and return its endpoints; abort it if there are too many, or if it has ended.

        It is also aborted if the connections of its address would wait too long for credit; until there is some,
        nothing is read from it.

        A connection that was accepted right before the listener closed is aborted too, because nothing would end it
        later.
        """
        client, local = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        if client is not None and local is not None and not self._is_closed:
            ends = endpoint_of(client), endpoint_of(local)
            address = ends[0].address
            wait: float | None = 0.0
            if self._credit is not None and self.settings.tls is not None:
                wait = self._credit.connect(address, self.clock())
            if wait is not None and self._places.take(connection, transport, address):
                self.connections.add(connection)
                if wait:
                    transport.pause_reading()
                    self._call_later(wait, functools.partial(_begin_reading, transport))
                return ends
            self._rejected.inc()
        transport.abort()
        return None

    def touch(self, connection: Connection) -> None:
        """Record that the client of a connection has just sent data."""
        self._places.touch(connection)

    def hold(self, connection: Connection, octets: int) -> None:
        """Record how many octets are kept for a connection, received or not read by its client."""
        self._places.hold(connection, octets)

    def discard(self, connection: Connection) -> None:
        """Free a connection."""
        self.connections.discard(connection)
        self._places.release(connection)

    def make_connection(self) -> asyncio.Protocol:
        """Make the protocol of one connection."""
        raise NotImplementedError

    def wrap(self, connection: asyncio.Protocol) -> asyncio.Protocol:
        """Wrap the protocol of a connection in TLS, if the listener has a certificate."""
        tls = self.settings.tls
        if tls is None:
            return connection
        return TlsConnection(connection, tls, turns=self.turns)

    def _begin(self) -> asyncio.Protocol:
        connect = self.faults.connect
        return self.wrap(self.make_connection()) if connect is None else connect(self)

    def _sweep(self) -> None:
        now = self.clock()
        for connection in tuple(self.connections):
            connection.expire(now)
        if self._is_closed and not self.connections:
            return
        self._sweeper = Timer(asyncio.get_running_loop(), SWEEP_INTERVAL, self._sweep)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, call)


def _begin_reading(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()
