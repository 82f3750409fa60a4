"""One socket to an upstream, and one query on it at a time.

Path: upstream/exchange.py asks, upstream/pool.py keeps connections between two queries.
Rule 1: a datagram or message with another ID than that of the query waited for is passed over: it is late, or forged.
        The sockets are connected, so the kernel drops what comes from elsewhere.
Rule 2: whoever asks brings the timeout; a connection whose query failed is closed, never used again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, cast

from hsdns.upstream.target import Target
from hsdns.wire.decode_reply import HEADER_LEN
from hsdns.wire.framing import FrameBuffer, frame

UDP: Final = "udp"
TCP: Final = "tcp"
TLS: Final = "tcp-tls"


class ConnectionClosed(ConnectionError):
    """The upstream closed the connection."""


class Connection:
    """What UDP and streams have in common: waiting for the message with the right ID."""

    def __init__(self) -> None:
        self.is_open = True
        self._transport: asyncio.BaseTransport | None = None
        self._id = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport from the event loop."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
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
        """Look at a datagram from the upstream."""
        self._receive(data)

    def error_received(self, exc: Exception) -> None:
        """Hear that nobody listens there (ICMP port unreachable)."""
        self._fail(exc)

    def _send(self, message: bytes) -> None:
        cast("asyncio.DatagramTransport", self._transport).sendto(message)


class StreamConnection(Connection, asyncio.Protocol):
    """A TCP connection, with TLS or without."""

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameBuffer()

    def data_received(self, data: bytes) -> None:
        """Look at the messages that are complete."""
        for message in self._frames.feed(data):
            self._receive(message)

    def eof_received(self) -> bool:
        """Close when the upstream does: half a connection is of no use."""
        return False

    def _send(self, message: bytes) -> None:
        cast("asyncio.WriteTransport", self._transport).write(frame(message))


async def connect(protocol: str, target: Target, tls: ssl.SSLContext | None) -> Connection:
    """Open a socket to an upstream; raise OSError.  `tls` is needed for tcp-tls."""
    loop = asyncio.get_running_loop()
    if protocol == UDP:
        _, udp = await loop.create_datagram_endpoint(
            UdpConnection, remote_addr=(target.address, target.port)
        )
        return udp
    if protocol == TCP:
        _, tcp = await loop.create_connection(StreamConnection, target.address, target.port)
        return tcp
    _, stream = await loop.create_connection(
        StreamConnection,
        target.address,
        target.port,
        ssl=tls,
        server_hostname=target.server_name or target.address.partition("%")[0],
    )
    return stream


def describe(error: BaseException) -> str:
    """What went wrong with a socket, as the end of a sentence that begins with the upstream's address."""
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections; does a DNS server listen there?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"shows a certificate that does not hold: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"does not agree on TLS: {error.strerror or error}"
    if isinstance(error, socket.gaierror):
        return f"cannot be reached: {error.strerror}"
    if isinstance(error, ConnectionClosed):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return str(error)
