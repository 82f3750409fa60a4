from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from hsdns.upstream.connection import (
    TCP,
    UDP,
    ConnectionClosed,
    StreamConnection,
    UdpConnection,
    connect,
    describe,
)
from hsdns.upstream.target import Target
from hsdns.wire.encode import encode_query
from hsdns.wire.framing import frame
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests.support.upstreams import answer, serve

QUERY = encode_query(Query.ask(Name.from_text("www.example.org."), RRType.A), 0x1234)
NOISE = b"\x12\x35" + bytes(10)
REPLY = b"\x12\x34" + bytes(10)


class Sent(asyncio.DatagramTransport):
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[object] = []
        self.closed = False

    def sendto(self, data: object, addr: object = None) -> None:
        self.messages.append(data)

    def write(self, data: object) -> None:
        self.messages.append(data)

    def close(self) -> None:
        self.closed = True


async def asked(connection: UdpConnection | StreamConnection) -> tuple[asyncio.Task[bytes], Sent]:
    sent = Sent()
    connection.connection_made(sent)
    task = asyncio.create_task(connection.ask(QUERY))
    await asyncio.sleep(0)
    return task, sent


def test_udp_passes_over_what_has_another_id() -> None:
    async def run() -> None:
        connection = UdpConnection()
        task, sent = await asked(connection)
        for datagram in (NOISE, b"", REPLY[:11], REPLY, NOISE):
            connection.datagram_received(datagram, ("127.0.0.1", 53))
        assert await task == REPLY
        assert sent.messages == [QUERY]
        connection.datagram_received(REPLY, ("127.0.0.1", 53))  # once more, when nobody waits

    asyncio.run(run())


@pytest.mark.parametrize("size", [1, 3, 100], ids=["byte-by-byte", "in-threes", "whole"])
def test_stream_passes_over_what_has_another_id(size: int) -> None:
    async def run() -> None:
        connection = StreamConnection()
        task, sent = await asked(connection)
        stream = frame(NOISE) + frame(REPLY)
        for at in range(0, len(stream), size):
            connection.data_received(stream[at : at + size])
        assert await task == REPLY
        assert sent.messages == [frame(QUERY)]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(None, ConnectionClosed, id="closed"),
        pytest.param(ConnectionResetError("reset"), ConnectionResetError, id="reset"),
    ],
)
def test_lost_while_waiting(error: Exception | None, kind: type[Exception]) -> None:
    async def run() -> None:
        connection = StreamConnection()
        task, _ = await asked(connection)
        assert connection.is_open
        assert not connection.eof_received()
        connection.connection_lost(error)
        with pytest.raises(kind):
            await task
        with pytest.raises(ConnectionClosed):
            await connection.ask(QUERY)

    asyncio.run(run())


def test_close() -> None:
    connection, sent = UdpConnection(), Sent()
    connection.connection_made(sent)
    connection.close()
    assert sent.closed
    assert not connection.is_open


@pytest.mark.parametrize("protocol", [UDP, TCP])
def test_sockets(protocol: str) -> None:
    async def run() -> None:
        script = answer("www.example.org. 5 IN A 192.0.2.1")
        async with serve(script, script) as upstream, asyncio.timeout(5):
            connection = await connect(protocol, Target("dns", "127.0.0.1", upstream.port), None)
            for _ in range(2):
                assert (await connection.ask(QUERY))[:2] == b"\x12\x34"
            connection.close()
            seen = upstream.udp if protocol == UDP else upstream.tcp
            assert seen == [QUERY, QUERY]

    asyncio.run(run())


async def connect_and_ask(protocol: str, target: Target) -> bytes:
    connection = await connect(protocol, target, None)
    try:
        return await connection.ask(QUERY)
    finally:
        connection.close()


@pytest.mark.parametrize("protocol", [UDP, TCP])
def test_nobody_listens(protocol: str) -> None:
    async def run() -> None:
        async with serve() as upstream:
            target = Target("dns", "127.0.0.1", upstream.port)
        async with asyncio.timeout(5):
            with pytest.raises(ConnectionRefusedError) as caught:
                await connect_and_ask(protocol, target)
        assert describe(caught.value) == "refuses connections; does a DNS server listen there?"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionClosed("closed the connection"), "closed the connection"),
        (OSError(113, "No route to host"), "cannot be reached: No route to host"),
        (
            socket.gaierror(socket.EAI_FAMILY, "Address family not supported"),
            "cannot be reached: Address family not supported",
        ),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION] wrong"),
            "does not agree on TLS: [SSL: WRONG_VERSION] wrong",
        ),
        (ValueError("odd"), "odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_describe(error: Exception, sentence: str) -> None:
    assert describe(error).endswith(sentence)
