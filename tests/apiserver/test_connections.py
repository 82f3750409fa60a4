"""One connection, whose octets arrive in every way in which they can be cut."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.access import Access
from hsdns.apiserver.connections import (
    BUFFER_LEN,
    MAX_HEAD_LEN,
    READ_LEN,
    Connections,
    HttpConnection,
    Lost,
    NoResponse,
    NotHttp,
    ProxyRefused,
    ProxyUnreachable,
    Route,
    head_of,
)
from tests.support.apiserver.scripted_http import Said, ScriptedServer, said

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nX-A: 1\r\nx-a: 2\r\n\r\nabcdef"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n5;x=y\r\nbcdef\r\n0\r\nTrailer: t\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + LENGTH


class Wire(asyncio.Transport):
    """A transport that notes what is done with it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads, self.is_over = True, False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over


def connected() -> tuple[HttpConnection, Wire]:
    connection, wire = HttpConnection(), Wire()
    connection.connection_made(wire)
    return connection, wire


async def asked(connection: HttpConnection, *parts: bytes) -> None:
    """Ask, and let this much of the response arrive."""
    asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for part in parts:
        connection.data_received(part)
    await asking


async def body(connection: HttpConnection) -> bytes:
    found = bytearray()

    def take(piece: bytes) -> bool:
        found.extend(piece)
        return True

    await connection.feed(take)
    return bytes(found)


@pytest.mark.parametrize(
    "response", [LENGTH, CHUNKED, INTERIM], ids=["length", "chunked", "interim"]
)
@given(cuts=st.lists(st.integers(0, 140), max_size=6))
def test_a_response_is_the_same_however_it_is_cut(response: bytes, cuts: list[int]) -> None:
    async def scenario() -> None:
        connection, wire = connected()
        places = [0, *sorted(cuts), len(response)]
        parts = [response[a:b] for a, b in pairwise(places)]
        await asked(connection, *filter(None, parts))
        assert (connection.status, connection.reason) == (200, "OK")
        assert await body(connection) == b"abcdef"
        assert connection.headers.get("X-a", "1") == "1"
        assert "Link" not in connection.headers
        assert connection.is_reusable
        assert wire.written == b"GET / HTTP/1.1\r\n\r\n"
        assert not wire.is_over

    asyncio.run(scenario())


async def test_a_server_that_is_not_read_is_stopped() -> None:
    connection, wire = connected()
    await asked(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n")
    half, reads = bytes(BUFFER_LEN // 2), []
    for _ in range(2):
        connection.data_received(half)
        reads.append(wire.reads)
    await connection.feed(lambda piece: len(piece) < READ_LEN)
    assert [*reads, wire.reads] == [True, False, True]


@pytest.mark.parametrize(("exc", "fault"), [(None, NoResponse), (ConnectionResetError(), Lost)])
async def test_no_response(exc: Exception | None, fault: type[Exception]) -> None:
    connection, _ = connected()
    asyncio.get_running_loop().call_soon(connection.connection_lost, exc)
    with pytest.raises(fault):
        await connection.ask(b"")
    with pytest.raises(fault):
        await connection.ask(b"")


async def test_a_head_without_end() -> None:
    connection, wire = connected()
    line = b"A: " + b"b" * 1021
    parts = [b"HTTP/1.1 200 OK", *[b"\r\n" + line] * (MAX_HEAD_LEN // 1024 + 1)]
    with pytest.raises(NotHttp, match="longer than 65536 octets"):
        await asked(connection, *parts)
    assert wire.is_over


async def test_what_was_not_asked_for_closes_the_connection() -> None:
    connection, wire = connected()
    connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    assert wire.is_over
    assert not connection.is_open
    with pytest.raises(NotHttp):
        await connection.ask(b"")


@pytest.mark.parametrize("start", [b"0\r\nX-T: ", b"0;x="], ids=["trailer", "chunk-extension"])
async def test_octets_that_are_no_body_are_limited(start: bytes) -> None:
    """A value of a trailer was joined without end."""
    connection, wire = connected()
    asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    await asking
    for _ in range(MAX_HEAD_LEN):
        connection.data_received(b"1\r\na\r\n")  # a watch may go on for hours
    connection.data_received(start)
    for _ in range(MAX_HEAD_LEN // 1024 - 1):
        connection.data_received(b"x" * 1024)
    assert not wire.is_closing()
    connection.data_received(b"x" * 1024)
    assert wire.is_over
    assert isinstance(connection.error, NotHttp)


# Connections to a server: which are opened, and which serve again.


pytestmark = pytest.mark.sockets

GET = head_of("GET /", [("Host", "x")])


@asynccontextmanager
async def served(
    answer: Callable[[str], Said] = lambda head: said(),
) -> AsyncIterator[tuple[ScriptedServer, Connections]]:
    async with ScriptedServer(answer) as server:
        found = Connections()
        yield server, found
        found.close()


async def ask(found: Connections, route: Route) -> HttpConnection:
    """A response that is read to its end, and whose connection is kept."""
    connection = await found.ask(route, GET, BUFFER_LEN)
    await body(connection)
    found.release(route, connection)
    return connection


@pytest.mark.parametrize(
    ("server", "proxy", "target", "headers"),
    [
        pytest.param("http://host:80/a", "", "", [], id="none"),
        pytest.param("https://host/a", "http://me:p%40ss@proxy:3128", "", [], id="tunnel"),
        pytest.param("http://host:80/a", "http://me:p%40ss@proxy:3128", "http://host:80", [("Proxy-Authorization", "Basic bWU6cEBzcw==")], id="plain"),
    ],
)  # fmt: skip
def test_requests_on_a_route(
    server: str, proxy: str, target: str, headers: list[tuple[str, str]]
) -> None:
    route = Route.of(Access(server, proxy=proxy), None)
    assert (route.target, route.headers) == (target, headers)


async def test_faults_of_a_proxy() -> None:
    async with served(lambda head: said("403 Not here")) as (server, found):
        context = ssl.create_default_context()
        access = Access("https://[2001:db8::1]:6443", proxy=server.url)
        with pytest.raises(ProxyRefused) as refused:
            await found.reach(Route.of(access, context))
        assert (refused.value.status, refused.value.reason) == (403, "Not here")
        assert server.requests[0].startswith("CONNECT [2001:db8::1]:6443 HTTP/1.1\r\n")
        nowhere = Access("https://192.0.2.1", proxy="http://127.0.0.1:1")
        with pytest.raises(ProxyUnreachable):
            await found.reach(Route.of(nowhere, context))


@pytest.mark.parametrize("loop", ["asyncio"])  # the lookup of uvloop's own loop can't be replaced
async def test_the_next_address_of_a_name_is_tried(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as (server, found):
        port = urlsplit(server.url).port
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")

        async def resolve(*args: object, **options: object) -> list[object]:
            return [(*stream, ("127.0.0.1", 1)), (*stream, ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        await ask(found, Route.of(Access(f"http://api.example.org:{port}"), None))
        assert server.connections == 1


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match='the value of the header "Impersonate-User" has a line'):
        head_of("GET /", [("Impersonate-User", value)])
