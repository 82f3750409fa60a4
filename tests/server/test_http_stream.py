"""A page in pieces over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from hsdns.http_page import Asked, HttpRefusal, HttpStream
from hsdns.server.http import HttpListeners, HttpPages
from hsdns.server.places import Places
from tests.server.test_http import LOCAL, ask, run

pytestmark = pytest.mark.sockets


async def whole(asked: Asked) -> AsyncGenerator[bytes, None]:
    yield b"one "
    yield repr((asked.method, asked.parameters, asked.body)).encode()


async def part(asked: Asked) -> AsyncGenerator[bytes, None]:
    yield b"one "
    raise ZeroDivisionError


async def none(asked: Asked) -> AsyncGenerator[bytes, None]:
    if asked.body:
        yield b""


async def refused(asked: Asked) -> AsyncGenerator[bytes, None]:
    if not asked.body:
        raise HttpRefusal(409, "not now")
    yield b""


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"),
    [
        ("GET", "/whole", b"", 200, chunks(b"one ", b"('GET', {}, b'')", b"")),
        ("GET", "/whole?a=1&b=%C3%A9", b"", 200, chunks(b"one ", "('GET', {'a': '1', 'b': 'é'}, b'')".encode(), b"")),
        ("POST", "/whole", b"x", 200, chunks(b"one ", b"('POST', {}, b'x')", b"")),
        ("HEAD", "/whole", b"", 200, b""),
        pytest.param("GET", "/part", b"", 200, chunks(b"one "), id="no last chunk"),
        ("GET", "/none", b"", 200, chunks(b"")),
        ("GET", "/refused", b"", 409, b'{"error": "not now"}\n'),
        ("GET", "/whole?c", b"", 400, b'{"error": "/whole has no parameter c; it has a, b"}\n'),
        ("GET", "/whole?a=1&a=2", b"", 400, b'{"error": "/whole takes a once"}\n'),
        ("GET", "/none?c", b"", 400, b'{"error": "/none has no parameter c; leave out ?c"}\n'),
        ("DELETE", "/whole", b"", 405, b'{"error": "/whole has no DELETE; it has GET, POST"}\n'),
        pytest.param("POST", "/whole", bytes(65_537), 413, b'{"error": "/whole takes at most 65536 octets"}\n', id="too large"),
    ],
)  # fmt: skip
def test_pieces(method: str, path: str, body: bytes, status: int, answer: bytes) -> None:
    async def case() -> None:
        pages = HttpPages()
        streams = {
            f"/{each.__name__}": HttpStream("text/plain", each) for each in (part, none, refused)
        }
        streams["/whole"] = HttpStream("text/plain", whole, None, ("a", "b"), ("GET", "POST"))
        pages.serve(LOCAL, streams)
        listeners = HttpListeners(Places(64))
        await listeners.open(pages)
        found = await ask(listeners.bound[LOCAL], path, method, body)
        assert (found.status, found.body) == (status, answer)
        await listeners.close()

    run(case())


def test_the_next_piece_waits_for_the_reader() -> None:
    """So a reader that takes nothing costs a bounded number of pieces."""
    made = 0

    async def endless(asked: Asked) -> AsyncGenerator[bytes, None]:
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
        writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.read(1)
        before = -1
        while made != before:  # what the kernel and the client buffer
            before = made
            await asyncio.sleep(0.05)
        assert 0 < made < 1000
        writer.close()
        await listeners.close()

    run(case())
