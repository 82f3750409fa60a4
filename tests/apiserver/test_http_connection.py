"""One connection, whose octets arrive in every way in which they can be cut."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.connections import (
    BUFFER_LEN,
    MAX_HEAD_LEN,
    READ_LEN,
    HttpConnection,
    Lost,
    NoResponse,
    NotHttp,
)

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


def run(scenario: Callable[[HttpConnection, Wire], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await scenario(*connected())

    asyncio.run(main())


async def asked(connection: HttpConnection, *parts: bytes) -> None:
    """Ask, and let this much of the response arrive."""
    asking = asyncio.ensure_future(connection.ask(b"GET / HTTP/1.1\r\n\r\n"))
    await asyncio.sleep(0)
    for part in parts:
        connection.data_received(part)
    await asking


async def body(connection: HttpConnection) -> bytes:
    found = b""
    while piece := await connection.read():
        found += piece
    return found


@pytest.mark.parametrize(
    "response", [LENGTH, CHUNKED, INTERIM], ids=["length", "chunked", "interim"]
)
@given(cuts=st.lists(st.integers(0, 140), max_size=6))
def test_a_response_is_the_same_however_it_is_cut(response: bytes, cuts: list[int]) -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
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

    run(scenario)


def test_a_server_that_is_not_read_is_stopped() -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        await asked(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n")
        half, reads = bytes(BUFFER_LEN // 2), []
        for _ in range(2):
            connection.data_received(half)
            reads.append(wire.reads)
        assert len(await connection.read()) == READ_LEN
        assert [*reads, wire.reads] == [True, False, True]

    run(scenario)


def test_the_rest_of_a_body_is_not_passed_on() -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        await asked(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
        found = list[bytes]()

        def take(piece: bytes) -> bool:
            found.append(piece)
            return len(found) < 2

        feeding = asyncio.ensure_future(connection.feed(take))
        await asyncio.sleep(0)
        for part in (b"abc", b"def", b"ghi"):
            connection.data_received(part)
        await feeding
        assert found == [b"abc", b"def"]
        assert not connection.is_reusable

    run(scenario)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        await asked(connection, b"HTTP/1.1 200 OK\r\n\r\nabc")
        connection.connection_lost(None)
        assert await body(connection) == b"abc"
        assert not connection.is_reusable

    run(scenario)


@pytest.mark.parametrize(("exc", "fault"), [(None, NoResponse), (ConnectionResetError(), Lost)])
def test_no_response(exc: Exception | None, fault: type[Exception]) -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        asyncio.get_running_loop().call_soon(connection.connection_lost, exc)
        with pytest.raises(fault):
            await connection.ask(b"")
        with pytest.raises(fault):
            await connection.ask(b"")

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", id="ssh"),
        pytest.param(b"HTTP/1.1 200 OK\r\nA B: c\r\n\r\n", id="header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", id="smuggling"),
    ],
)  # fmt: skip
def test_no_http(data: bytes) -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        with pytest.raises(NotHttp):
            await asked(connection, data)
        assert wire.is_over

    run(scenario)


def test_a_head_without_end() -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        line = b"A: " + b"b" * 1021
        parts = [b"HTTP/1.1 200 OK", *[b"\r\n" + line] * (MAX_HEAD_LEN // 1024 + 1)]
        with pytest.raises(NotHttp, match="longer than 65536 octets"):
            await asked(connection, *parts)
        assert wire.is_over

    run(scenario)


def test_what_was_not_asked_for_closes_the_connection() -> None:
    async def scenario(connection: HttpConnection, wire: Wire) -> None:
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert wire.is_over
        assert not connection.is_open
        with pytest.raises(NotHttp):
            await connection.ask(b"")

    run(scenario)


@pytest.mark.parametrize("start", [b"0\r\nX-T: ", b"0;x="], ids=["trailer", "chunk-extension"])
def test_octets_that_are_no_body_are_limited(start: bytes) -> None:
    """A value of a trailer was joined without end."""

    async def scenario(connection: HttpConnection, wire: Wire) -> None:
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

    run(scenario)
