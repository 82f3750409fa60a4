"""One query on a connection, the pool of idle ones, and what their errors say."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import partial

import pytest

from hsdns.upstream.connection import (
    MAX_IDLE,
    TCP,
    UDP,
    Connection,
    ConnectionClosed,
    Pool,
    ProtocolViolation,
    StreamConnection,
    UdpConnection,
    connect,
    describe,
    server_hostname,
    time_limit,
)
from hsdns.upstream.target import Target
from hsdns.wire.encode import encode_query
from hsdns.wire.framing import frame
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests.support.coroutines import event_loops
from tests.support.coroutines.event_loops import LOOPS
from tests.support.upstreams.dns_upstream import serve

QUERY = encode_query(Query.ask(Name.from_text("www.example.org."), RRType.A), 0x1234)
NOISE = b"\x12\x35" + bytes(10)
REPLY = b"\x12\x34" + bytes(10)


@pytest.fixture(params=sorted(LOOPS), autouse=True)
def _both_loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Play each test on both event loops, whose transports are not alike."""
    monkeypatch.setattr(asyncio, "run", partial(event_loops.run, loop=request.param))


class Sent(asyncio.DatagramTransport):
    """A transport that records what is sent."""

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


async def test_udp_ignores_other_ids() -> None:
    connection = UdpConnection()
    task, sent = await asked(connection)
    for datagram in (NOISE, b"", REPLY[:11], REPLY, NOISE):
        connection.datagram_received(datagram, ("127.0.0.1", 53))
    assert await task == REPLY
    assert sent.messages == [QUERY]
    connection.datagram_received(REPLY, ("127.0.0.1", 53))  # once more, when nobody waits


@pytest.mark.parametrize("size", [1, 3, 100], ids=["byte-by-byte", "in-threes", "whole"])
async def test_a_stream_ignores_other_ids(size: int) -> None:
    connection = StreamConnection()
    task, sent = await asked(connection)
    stream = frame(NOISE) + frame(REPLY)
    for at in range(0, len(stream), size):
        connection.data_received(stream[at : at + size])
    assert await task == REPLY
    assert sent.messages == [frame(QUERY)]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(None, ConnectionClosed, id="closed"),
        pytest.param(ConnectionResetError("reset"), ConnectionResetError, id="reset"),
    ],
)
async def test_a_connection_lost_during_a_query(
    error: Exception | None, kind: type[Exception]
) -> None:
    connection = StreamConnection()
    task, _ = await asked(connection)
    assert connection.is_open
    assert not connection.eof_received()
    connection.connection_lost(error)
    with pytest.raises(kind):
        await task
    with pytest.raises(ConnectionClosed):
        await connection.ask(QUERY)


def test_close() -> None:
    connection, sent = UdpConnection(), Sent()
    connection.connection_made(sent)
    connection.close()
    assert sent.closed
    assert not connection.is_open


async def connect_and_ask(protocol: str, target: Target) -> bytes:
    connection = await connect(protocol, target, None)
    try:
        return await connection.ask(QUERY)
    finally:
        connection.close()


@pytest.mark.parametrize("protocol", [UDP, TCP])
async def test_no_listener(protocol: str) -> None:
    async with serve() as upstream:
        target = Target("dns", "127.0.0.1", upstream.port)
    async with asyncio.timeout(30):
        with pytest.raises(ConnectionRefusedError) as caught:
            await connect_and_ask(protocol, target)
    assert describe(caught.value) == "refuses connections; does a DNS server listen there?"


@pytest.mark.parametrize(
    ("source", "address", "sentence"),
    [
        pytest.param(
            "::1", "127.0.0.1", "source_address ::1 is of another address family", id="v6"
        ),
        pytest.param("127.0.0.1", "::1", "source_address 127.0.0.1 is of another address", id="v4"),
        pytest.param(
            "192.0.2.99", "127.0.0.1", "(?i)cannot assign requested", id="not-of-this-host"
        ),
    ],
)
@pytest.mark.parametrize("protocol", [UDP, TCP])
def test_a_source_address_of_another_family(
    protocol: str, source: str, address: str, sentence: str
) -> None:
    with pytest.raises(OSError, match=sentence):
        asyncio.run(connect(protocol, Target("dns", address, 53), None, source))


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Target("tls", "192.0.2.1", 853, "dns.example.net"), "dns.example.net"),
        (Target("tls", "192.0.2.1", 853), "192.0.2.1"),
        (Target("tls", "fe80::1%eth0", 853), "fe80::1"),
    ],
)
def test_whom_the_certificate_must_name(target: Target, name: str) -> None:
    assert server_hostname(target) == name


@pytest.mark.parametrize("loop", LOOPS)
async def test_time_limit(loop: str) -> None:
    """It ends a wait that is longer, nothing else, and leaves no timer behind."""
    with pytest.raises(TimeoutError):
        async with time_limit(0.001):
            await asyncio.Event().wait()
    async with time_limit(0.0):
        pass
    await asyncio.sleep(0.01)
    with pytest.raises(ConnectionError):
        async with time_limit(60.0):
            raise ConnectionError
    waiting = asyncio.create_task(asyncio.Event().wait())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with time_limit(60.0):
            await waiting


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_oldest_first_and_by_protocol() -> None:
    pool, first, second, stream = Pool(10.0, Clock()), Connection(), Connection(), Connection()
    pool.give(UDP, first)
    pool.give(UDP, second)
    pool.give(TCP, stream)
    assert len(pool) == 3
    assert [pool.take(UDP), pool.take(UDP), pool.take(UDP)] == [first, second, None]
    assert pool.take(TCP) is stream
    pool.close()


async def test_expired_are_closed_at_the_next_take() -> None:
    clock = Clock()
    pool, old, young = Pool(10.0, clock), Connection(), Connection()
    pool.give(UDP, old)
    clock.now += 5.0
    pool.give(UDP, young)
    clock.now += 5.1
    assert pool.take(UDP) is young
    assert not old.is_open
    assert young.is_open
    pool.close()


async def test_sweep_closes_unused_connections() -> None:
    clock = Clock()
    pool, old, young, dead = Pool(10.0, clock), Connection(), Connection(), Connection()
    pool.give(UDP, old)
    pool.give(TCP, dead)
    dead.is_open = False
    clock.now += 5.0
    pool.give(UDP, young)
    clock.now += 5.0
    pool.sweep()
    assert [old.is_open, young.is_open, len(pool)] == [False, True, 1]
    clock.now += 5.0
    pool.sweep()
    assert [young.is_open, len(pool)] == [False, 0]


async def test_closed_connections_are_not_pooled() -> None:
    pool, gone, going = Pool(10.0, Clock()), Connection(), Connection()
    gone.close()
    pool.give(UDP, gone)
    assert len(pool) == 0
    pool.give(UDP, going)
    going.close()
    assert pool.take(UDP) is None
    pool.close()


async def test_room() -> None:
    pool, connections = Pool(10.0, Clock()), [Connection() for _ in range(MAX_IDLE + 1)]
    for connection in connections:
        pool.give(UDP, connection)
    assert len(pool) == MAX_IDLE
    assert [connection.is_open for connection in connections] == [True] * MAX_IDLE + [False]
    pool.close()
    assert not any(connection.is_open for connection in connections)
    late = Connection()
    pool.give(UDP, late)
    assert [late.is_open, len(pool)] == [False, 0]


async def test_old_ones_are_closed_however_busy() -> None:
    clock = Clock()
    pool, old, young = Pool(10.0, clock, max_age=15.0), Connection(), Connection()
    old.opened, young.opened = 90.0, 99.0
    for connection in (young, old):
        pool.give(UDP, connection)
    clock.now += 6.0
    assert pool.take(UDP) is young
    assert pool.take(UDP) is None
    assert [young.is_open, old.is_open] == [True, False]
    clock.now += 10.0
    pool.give(UDP, young)
    assert [young.is_open, len(pool)] == [False, 0]
    pool.close()


async def test_sweep_closes_old_connections_behind_newer_ones() -> None:
    clock = Clock()
    pool, young, old = Pool(10.0, clock, max_age=15.0), Connection(), Connection()
    young.opened, old.opened = 99.0, 90.0
    for connection in (young, old):
        pool.give(TCP, connection)
    clock.now += 6.0
    pool.sweep()
    assert [young.is_open, old.is_open, len(pool)] == [True, False, 1]
    pool.close()


async def test_max_idle_is_for_each_protocol() -> None:
    pool = Pool(10.0, Clock(), max_idle=1)
    connections = [Connection() for _ in range(4)]
    for protocol, connection in zip((UDP, UDP, TCP, TCP), connections, strict=True):
        pool.give(protocol, connection)
    assert [connection.is_open for connection in connections] == [True, False, True, False]
    pool.close()


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
            "failed the TLS handshake: [SSL: WRONG_VERSION] wrong",
        ),
        (ProtocolViolation("answers with HTTP status 404"), "answers with HTTP status 404"),
        (ValueError("odd"), "odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_describe(error: Exception, sentence: str) -> None:
    assert describe(error).endswith(sentence)
