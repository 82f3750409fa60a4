"""Connections to an upstream over UDP, TCP or TLS, with one query at a time; a pool of idle ones; and their errors.

Path: upstream/exchange.py sends queries, takes a connection from the pool for each and gives it back, and makes the
messages of errors.
Source: CoreDNS 1.14.7 plugin/pkg/proxy persistent.go: the oldest connection is used first, so that many source ports
stay in use; one that is idle for longer than `expire`, or older than `max_age`, is closed.
Rule 1: a message with another ID than the pending query is ignored: it is late or spoofed.  UDP sockets are connected,
        so the kernel drops datagrams from other addresses.
Rule 2: the caller sets the timeout, with time_limit(), and closes a connection whose query failed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from hsdns.turns import Timer
from hsdns.upstream.target import Target, UpstreamSettings
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.framing import FrameBuffer, frame


class ConnectionClosed(ConnectionError):
    """The upstream closed the connection, or accepts no more queries on it; the message says which."""


class ProtocolViolation(OSError):
    """The upstream did not follow the protocol; the message continues a sentence that begins with its address."""


class Displaced(OSError):
    """Newer queries to the upstream took the place of this one; the message continues as above."""


def describe(error: BaseException) -> str:
    """Return the end of an error message that begins with the upstream's address."""
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections; does a DNS server listen there?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"presents an invalid certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"failed the TLS handshake: {error.strerror or error}"
    if isinstance(error, socket.gaierror):
        return f"cannot be reached: {error.strerror}"
    if isinstance(error, (ConnectionClosed, ProtocolViolation, Displaced)):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return str(error)


UDP: Final = "udp"
TCP: Final = "tcp"
TLS: Final = "tcp-tls"
HTTPS: Final = "https"  # https.py


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """As asyncio.timeout(), but a reply that has arrived within the time is read (turns.py)."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as limit:
        timer = Timer(loop, seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()


class Connection:
    """A connection that waits for the message with the ID of its query; base of UDP and streams."""

    def __init__(self) -> None:
        self.is_open = True
        self.opened = 0.0  # monotonic seconds, set by the caller
        self._transport: asyncio.BaseTransport | None = None
        self._id = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport (asyncio.BaseProtocol)."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending query."""
        self.is_open = False
        self._fail(exc or ConnectionClosed("closed the connection"))

    def close(self) -> None:
        """Close the socket."""
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    async def ask(self, message: bytes) -> bytes:
        """Send a query; return the next message with its ID; raise OSError."""
        if not self.is_open:
            raise ConnectionClosed("closed the connection")
        self._id = message[:2]
        self._answer = asyncio.get_running_loop().create_future()
        try:
            self._send(message)
            return await self._answer
        finally:
            self._answer = None

    def _send(self, message: bytes) -> None:
        raise NotImplementedError

    def _receive(self, message: bytes) -> None:
        answer = self._answer
        if (
            answer is not None
            and not answer.done()
            and len(message) >= HEADER_LEN
            and message[:2] == self._id
        ):
            answer.set_result(message)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class UdpConnection(Connection, asyncio.DatagramProtocol):
    """A connected UDP socket."""

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Process a datagram from the upstream."""
        self._receive(data)

    def error_received(self, exc: Exception) -> None:
        """Fail the pending query (ICMP port unreachable)."""
        self._fail(exc)

    def _send(self, message: bytes) -> None:
        cast("asyncio.DatagramTransport", self._transport).sendto(message)


class StreamConnection(Connection, asyncio.Protocol):
    """A TCP connection, with or without TLS."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameBuffer()

    def data_received(self, data: bytes) -> None:
        """Process the complete messages."""
        for message in self._frames.feed(data):
            self._receive(message)

    def eof_received(self) -> bool:
        """Close when the upstream closes its side."""
        return False

    def _send(self, message: bytes) -> None:
        cast("asyncio.WriteTransport", self._transport).write(frame(message))


async def connect(
    protocol: str, target: Target, tls: ssl.SSLContext | None, source: str | None = None
) -> Connection:
    """Connect to an upstream; raise OSError.  tcp-tls needs `tls`; `source` is the local address, or None."""
    loop = asyncio.get_running_loop()
    local = local_address(target, source)
    if protocol == UDP:
        _, udp = await loop.create_datagram_endpoint(UdpConnection, sock=connect_udp(target, local))
        return udp
    is_tls = protocol == TLS
    _, stream = await loop.create_connection(
        StreamConnection,
        target.address,
        target.port,
        ssl=tls if is_tls else None,
        server_hostname=server_hostname(target) if is_tls else None,
        local_addr=local,
    )
    return stream


def local_address(target: Target, source: str | None) -> tuple[str, int] | None:
    """Return the local address for an upstream; raise OSError if `source` is of the other family."""
    if source is None:
        return None
    if (":" in source) != (":" in target.address):
        raise OSError(errno.EAFNOSUPPORT, f"source_address {source} is of another address family")
    return source, 0


def server_hostname(target: Target) -> str:
    """Return the name that an upstream's certificate must contain."""
    return target.server_name or target.address.partition("%")[0]


def connect_udp(target: Target, local: tuple[str, int] | None) -> socket.socket:
    """Make a connected socket that does not block, bound to `local` if not None; raise OSError."""
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        if local is not None:
            made.bind(local)
        made.connect((target.address, target.port))
    except OSError:
        made.close()
        raise
    return made


# CoreDNS has no limit by default, and may exhaust the file descriptors (often 1,024) after a burst.
MAX_IDLE: Final = 256


class Pool:
    """The idle connections by protocol, the one idle for longest first.

    `max_idle_conns` is per protocol, and 0 means MAX_IDLE.
    """

    def __init__(self, settings: UpstreamSettings, clock: Callable[[], float]) -> None:
        self._expire, self._clock = settings.expire, clock
        self._max_age = settings.max_age or float("inf")
        self._max_idle = settings.max_idle_conns or MAX_IDLE
        self._idle: dict[str, deque[tuple[float, Connection]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        """The number of idle connections."""
        return sum(map(len, self._idle.values()))

    def take(self, protocol: str) -> Connection | None:
        """Take a usable idle connection, None if there is none."""
        idle, now = self._idle.get(protocol), self._clock()
        while idle:
            since, connection = idle.popleft()
            if now - since <= self._expire and not self._is_expired(connection, now):
                return connection
            connection.close()
        return None

    def give(self, protocol: str, connection: Connection) -> None:
        """Return a connection to the pool."""
        idle = self._idle.setdefault(protocol, deque())
        now = self._clock()
        if self._is_closed or self._is_expired(connection, now) or len(idle) >= self._max_idle:
            connection.close()
            return
        idle.append((now, connection))
        self._schedule_sweep()

    def sweep(self) -> None:
        """Close connections that are idle for too long; called by a timer while there are any."""
        self._timer = None
        now = self._clock()
        for protocol, idle in self._idle.items():
            good: deque[tuple[float, Connection]] = deque()
            for since, connection in idle:
                if now - since >= self._expire or self._is_expired(connection, now):
                    connection.close()
                else:
                    good.append((since, connection))
            self._idle[protocol] = good
        if len(self):
            self._schedule_sweep()

    def close(self) -> None:
        """Close all connections, and later those that are given back."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for idle in self._idle.values():
            while idle:
                idle.popleft()[1].close()

    def _is_expired(self, connection: Connection, now: float) -> bool:
        return not connection.is_open or now - connection.opened > self._max_age

    def _schedule_sweep(self) -> None:
        if self._timer is None:
            # At least a second, so that `expire 0s` does not busy the loop.
            delay = max(self._expire, 1.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.sweep)
