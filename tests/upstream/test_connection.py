"""One query on a connection, the pool of idle ones, and what their errors say."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.upstream.connection import (
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
)
from hsdns.upstream.target import Target, UpstreamSettings
from hsdns.wire.encode import encode_query
from hsdns.wire.framing import frame
from hsdns.wire.iana import RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests.support.tables import section, sections, values

pytestmark = pytest.mark.usefixtures("both_loops")

TABLES = Path(__file__).with_name("tables.txt")

QUERY = encode_query(Query.ask(Name.from_text("www.example.org."), RRType.A), 0x1234)
NOISE = b"\x12\x35" + bytes(10)
REPLY = b"\x12\x34" + bytes(10)


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


@pytest.mark.parametrize(("source", "address", "sentence"), values(TABLES, "a source address of another family"))  # fmt: skip
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


POOL = Path(__file__).with_name("pool.txt")


@pytest.mark.parametrize("name", sections(POOL))
async def test_pool(name: str) -> None:
    clock = SimpleNamespace(now=100.0)
    options: dict[str, Any] = {}
    made: dict[str, Connection] = {}
    pool: Pool | None = None
    for line in section(POOL, name).splitlines():
        words = line.split()
        if words[0] in ("max_age", "max_idle_conns"):
            options[words[0]] = int(words[1])
            continue
        pool = Pool(UpstreamSettings(**options), lambda: clock.now) if pool is None else pool
        match words:
            case "give", protocol, *names:
                for each in names:
                    which, _, opened = each.partition("@")
                    made.setdefault(which, Connection())
                    made[which].opened = float(opened or made[which].opened)
                    pool.give(protocol, made[which])
            case "take", protocol, "=>", expected:
                assert pool.take(protocol) is made.get(expected), line
            case "pass", seconds:
                clock.now += float(seconds)
            case ("sweep",):
                pool.sweep()
            case ("end",):
                pool.close()
            case "close", which:
                made.setdefault(which, Connection()).is_open = False
            case "=>", count, *names:
                assert len(pool) == int(count), line
                assert [each for each in made if made[each].is_open] == names, line
    assert pool is not None
    pool.close()


async def test_a_pool_keeps_at_most_256_idle_connections() -> None:
    pool, made = Pool(UpstreamSettings(), lambda: 100.0), [Connection() for _ in range(257)]
    for each in made:
        pool.give("udp", each)
    assert (len(pool), [each.is_open for each in made].count(False)) == (256, 1)


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
