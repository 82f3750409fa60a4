"""A page in pieces over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from hsdns.http_page import HttpRefusal, HttpStream
from hsdns.server.http import HttpListeners, HttpPages
from hsdns.server.places import Places
from tests.server.test_http import LOCAL, ask, run

pytestmark = pytest.mark.sockets


async def whole(query: str) -> AsyncGenerator[bytes, None]:
    yield b"one "
    yield query.encode()


async def part(query: str) -> AsyncGenerator[bytes, None]:
    yield b"one "
    raise ZeroDivisionError


async def none(query: str) -> AsyncGenerator[bytes, None]:
    if query:
        yield b""


async def refused(query: str) -> AsyncGenerator[bytes, None]:
    if not query:
        raise HttpRefusal(409, "not now")
    yield b""


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/whole?two", 200, b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n"),
        pytest.param("/part", 200, b"4\r\none \r\n", id="no last chunk"),
        ("/none", 200, b"0\r\n\r\n"),
        ("/refused", 409, b'{"error": "not now"}\n'),
    ],
)
def test_pieces(path: str, status: int, body: bytes) -> None:
    async def case() -> None:
        pages = HttpPages()
        makers = (whole, part, none, refused)
        pages.serve(LOCAL, {f"/{each.__name__}": HttpStream("text/plain", each) for each in makers})
        listeners = HttpListeners(Places(64))
        await listeners.open(pages)
        found = await ask(listeners.bound[LOCAL], path)
        assert (found.status, found.body) == (status, body)
        await listeners.close()

    run(case())


def test_the_next_piece_waits_for_the_reader() -> None:
    """So a reader that takes nothing costs a bounded number of pieces."""
    made = 0

    async def endless(query: str) -> AsyncGenerator[bytes, None]:
        nonlocal made
        while True:
            made += 1
            yield bytes(65_536)

    async def case() -> None:
        pages = HttpPages()
        pages.serve(LOCAL, {"/endless": HttpStream("text/plain", endless)})
        listeners = HttpListeners(Places(64))
        await listeners.open(pages)
        reader, writer = await asyncio.open_connection(*listeners.bound[LOCAL], limit=1)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.read(1)
        before = -1
        while made != before:  # what the kernel and the client buffer
            before = made
            await asyncio.sleep(0.05)
        assert 0 < made < 1000
        writer.close()
        await listeners.close()

    run(case())
