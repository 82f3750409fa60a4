from __future__ import annotations

from collections.abc import AsyncGenerator

from hsdns.http_page import PageRequest
from hsdns.server.control.door import Door
from hsdns.server.control.routes import events
from tests.server.control.shown import NO_DOOR


async def test_each_line_is_an_event() -> None:
    async def lines(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        assert door is NO_DOOR
        yield b'{"asked":"%s"}\n' % asked.parameters["name"].encode()
        yield b"1\n2\n"

    asked = PageRequest(parameters={"name": "a"})
    assert [piece async for piece in events(lines)(NO_DOOR, asked)] == [
        b'data: {"asked":"a"}\n\n',
        b"data: 1\n\ndata: 2\n\n",
    ]


async def test_the_lines_end_with_their_reader() -> None:
    ended = []

    async def lines(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"1\n"
        finally:
            ended.append(1)

    made = events(lines)(NO_DOOR, PageRequest())
    await anext(made)
    await made.aclose()
    assert ended == [1]
