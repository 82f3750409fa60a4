"""Sends JSON lines as server-sent events, for pages in a browser: /v1/top/events.

Path: routes.py -> here -> the page whose lines are sent.
Source: HTML standard, section 9.2 (Server-sent events): each event is `data: LINE` and an empty line.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from hsdns.http_page import Asked
from hsdns.server.control.door import Door

EVENTS: Final = "text/event-stream"
Lines = Callable[[Door, Asked], AsyncGenerator[bytes, None]]


def events(lines: Lines) -> Lines:
    """A page that sends each line of another page as an event."""

    async def made(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
        async with aclosing(lines(door, asked)) as pieces:
            async for piece in pieces:
                yield b"".join(b"data: %b\n\n" % line for line in piece.splitlines())

    return made
