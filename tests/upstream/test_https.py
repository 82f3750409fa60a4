from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import dns.message
import pytest

from hsdns.upstream.connection import ConnectionClosed
from hsdns.upstream.https import DohSession, HttpsConnection, HttpsPool, connect_https
from hsdns.upstream.target import HTTP2, Target, UpstreamSettings
from tests.support.coroutines.scripted_timeouts import script_timeouts, silence_until_timeout
from tests.support.upstreams.certificate import Certificate, make_certificate
from tests.support.upstreams.dns_upstream import Answer, answer
from tests.support.upstreams.doh_upstream import Asked, DohUpstream, serve_doh

pytestmark = pytest.mark.usefixtures("both_loops")

NAME = "dns.example.net"
FOUND = answer("www.example.org. 5 IN A 192.0.2.1")
WIRE = dns.message.make_query("www.example.org", "A", id=0x1234).to_wire()
QUERY = b"\0\0" + WIRE[2:]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), NAME)


def context(certificate: Certificate) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=certificate.cert)
    made.set_alpn_protocols(list(HTTP2))
    return made


class Line:
    """An HttpsPool with a scripted server, a clock and counts."""

    def __init__(
        self, server: DohUpstream, certificate: Certificate, expire: float, max_age: float
    ) -> None:
        self.server, self.now = server, 100.0
        self.opened: list[bool] = []
        target, tls = Target("https", "127.0.0.1", server.port, NAME), context(certificate)

        connect = partial(connect_https, target, tls, "POST")
        self.line = HttpsPool(connect, lambda: self.now, UpstreamSettings(expire, max_age))

    async def ask(self) -> bytes:
        return await self.line.ask(WIRE, lambda was_open: self.opened.append(not was_open))


@asynccontextmanager
async def line_to(
    certificate: Certificate,
    script: Answer = FOUND,
    *,
    expire: float = 10.0,
    max_age: float = 0.0,
    at_most: int = 100,
) -> AsyncIterator[Line]:
    async with asyncio.timeout(10), serve_doh(script, certificate, at_most=at_most) as server:
        line = Line(server, certificate, expire, max_age)
        yield line
        line.line.close()


def is_reply(wire: bytes) -> bool:
    return dns.message.from_wire(wire).answer[0].to_text() == "www.example.org. 5 IN A 192.0.2.1"


@pytest.mark.parametrize(
    ("method", "server_name", "content_type"),
    [
        pytest.param("POST", NAME, "application/dns-message", id="post"),
        pytest.param("GET", NAME, None, id="get"),
    ],
)
async def test_one_connection(
    method: str, server_name: str, content_type: str | None, certificate: Certificate
) -> None:
    async with asyncio.timeout(10), serve_doh(FOUND, certificate) as server:
        target = Target("https", "127.0.0.1", server.port, server_name)
        connection = await connect_https(target, context(certificate), method, "127.0.0.1")
        assert is_reply(await connection.ask(WIRE))
        authority = f"{NAME}:{server.port}"
        assert server.asked == [Asked(method, "/dns-query", authority, content_type, QUERY)]
        assert connection.is_usable
        assert connection.is_idle
        connection.close()
        assert not connection.is_usable


async def test_a_server_without_http2(certificate: Certificate) -> None:
    async with asyncio.timeout(10), serve_doh(FOUND, certificate, alpn="http/1.1") as server:
        target = Target("https", "127.0.0.1", server.port, NAME)
        with pytest.raises(OSError, match="does not offer HTTP/2"):
            await connect_https(target, context(certificate), "POST")


async def test_more_queries_than_the_server_accepts_at_once(certificate: Certificate) -> None:
    async with line_to(certificate, at_most=3) as line:
        await line.ask()
        replies = await asyncio.gather(*(line.ask() for _ in range(30)))
        assert all(map(is_reply, replies))
        assert 1 < len(line.server.connections) <= 11


async def test_sweep_closes_an_idle_connection(certificate: Certificate) -> None:
    async with line_to(certificate) as line:
        line.line.sweep()
        await line.ask()
        line.now += 9.0
        line.line.sweep()
        assert len(line.line) == 1
        line.now += 1.0
        line.line.sweep()
        assert len(line.line) == 0


async def test_a_goaway_during_a_query_is_no_failure(certificate: Certificate) -> None:
    def leave_once(wire: bytes) -> list[bytes]:
        if len(line.server.asked) == 2:
            line.server.say(0, goodbye=True)
            return []
        return FOUND(wire)

    async with line_to(certificate, leave_once) as line:
        for _ in range(2):
            assert is_reply(await line.ask())
        assert line.opened == [True, False, True]
        assert len(line.server.connections) == 2


async def test_a_server_that_always_closes(certificate: Certificate) -> None:
    def leave(wire: bytes) -> list[bytes]:
        line.server.connections[-1].close()
        return []

    async with line_to(certificate, leave) as line:
        with pytest.raises(ConnectionError):
            await line.ask()
        assert len(line.server.connections) == 3


async def test_after_a_timeout_another_connection_is_used(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_timeouts(monkeypatch)
    script = [silence_until_timeout(0.5), FOUND]

    async with line_to(certificate, lambda wire: script.pop(0)(wire)) as line:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await line.ask()
        assert len(line.line) == 0
        assert is_reply(await line.ask())
        assert len(line.server.connections) == 2


class Transport:
    """What a connection closes."""

    is_closed = False

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("reply", [b"reply", ConnectionClosed("closed")])
async def test_a_reply_comes_as_its_query_is_cancelled(reply: bytes | ConnectionClosed) -> None:
    """The others of the connection have theirs; one that is drained closes after the last."""

    class Session(DohSession):
        def receive_data(self, data: bytes) -> dict[int, bytes | OSError]:
            return {1: reply, 99: b"unknown"} if data == b"first" else {3: b"other"}

    connection, transport = HttpsConnection(Session("dns.example.net")), Transport()
    connection.connection_made(cast("asyncio.Transport", transport))
    cancelled, other = (asyncio.create_task(connection.ask(WIRE)) for _ in range(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    connection.drain()
    connection.data_received(b"first")
    assert not transport.is_closing()
    connection.data_received(b"second")
    assert transport.is_closing()
    assert await other == b"other"
    with pytest.raises(asyncio.CancelledError):
        await cancelled
