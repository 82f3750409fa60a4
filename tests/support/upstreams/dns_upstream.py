"""Scripted DNS servers on loopback, as upstreams of what is under test, in the event loop of the test."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, cast

import dns.flags
import dns.message
import dns.rrset

from hsdns.wire.framing import FrameBuffer, frame
from loadtest.ports import open_both

# An address of this host that is not the one a socket gets by itself; macOS has only one on loopback.
OTHER_LOOPBACK = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"

# A query to the messages sent back, in order; none is silence.
Answer = Callable[[bytes], list[bytes]]


def answer(*records: str, flags: int = dns.flags.RA, rcode: int = 0) -> Answer:
    """Answer with records of the form `name ttl IN TYPE rdata`; `flags` beside QR and the query's RD."""

    def reply(wire: bytes) -> list[bytes]:
        message = dns.message.make_response(dns.message.from_wire(wire))
        message.flags |= flags
        message.flags |= rcode
        for text in records:
            owner, ttl, rrclass, rrtype, rdata = text.split(None, 4)
            message.answer.append(dns.rrset.from_text(owner, int(ttl), rrclass, rrtype, rdata))
        return [message.to_wire()]

    return reply


def silence(wire: bytes) -> list[bytes]:
    """Send no reply."""
    return []


class Upstream(NamedTuple):
    """A server that runs: its port, the queries it got by protocol, and how many connections it accepted."""

    port: int
    udp: list[bytes]
    tcp: list[bytes]
    connections: list[asyncio.Transport]


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, script: Answer, seen: list[bytes]) -> None:
        self._script, self._seen = script, seen

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._seen.append(data)
        for message in self._script(data):
            self._transport.sendto(message, addr)


class _Tcp(asyncio.Protocol):
    def __init__(
        self, script: Answer, seen: list[bytes], made: list[asyncio.Transport], closes: bool
    ) -> None:
        self._script, self._seen, self._made, self._closes = script, seen, made, closes
        self._frames = FrameBuffer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._made.append(self._transport)

    def data_received(self, data: bytes) -> None:
        for query in self._frames.feed(data):
            self._seen.append(query)
            for message in self._script(query):
                self._transport.write(frame(message))
            if self._closes:
                self._transport.close()


@asynccontextmanager
async def serve(
    udp: Answer = silence,
    tcp: Answer = silence,
    *,
    tls: ssl.SSLContext | None = None,
    closes: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Upstream]:
    """Run a server on one port for UDP and TCP, of loopback if not told otherwise; `closes` ends a connection after its first reply."""
    loop = asyncio.get_running_loop()
    udp_sock, tcp_sock = open_both(host, port)
    upstream = Upstream(udp_sock.getsockname()[1], [], [], [])
    async with AsyncExitStack() as stack:
        for sock in (udp_sock, tcp_sock):
            stack.callback(sock.close)
        listener = await loop.create_server(
            lambda: _Tcp(tcp, upstream.tcp, upstream.connections, closes), sock=tcp_sock, ssl=tls
        )
        stack.push_async_callback(listener.wait_closed)
        stack.callback(_abort, upstream.connections)
        stack.callback(listener.close)
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Udp(udp, upstream.udp), sock=udp_sock
        )
        stack.callback(transport.close)
        yield upstream


def _abort(connections: list[asyncio.Transport]) -> None:
    for connection in connections:
        connection.abort()
