"""Streams the changes in DNS from now on: /v1/changes.

Path: routes.py -> here -> change_follower.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from hsdns.http_page import Asked
from hsdns.server.control.change_follower import POLL, ChangeFollower, to_words
from hsdns.server.control.door import Door, time_text, to_line
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name


async def changes(door: Door, _: Asked) -> AsyncGenerator[bytes, None]:
    """Write a line for each added or removed record; the first line, and one after each reload, has the zones."""
    turn = Turn(door.clock)
    follower = ChangeFollower(door)
    door.serving()
    while door.instance() is not None:
        if follower.follow():
            yield to_line({"time": time_text(door.wall()), "zones": follower.zones})
        async for piece in follower.look(turn):
            now = time_text(door.wall())
            yield b"".join(_line(now, zone, text) for zone, text in piece)
        await asyncio.sleep(POLL)


def _line(now: str, zone: Name, text: str) -> bytes:
    change, name, record = to_words(text)
    return to_line(
        {"time": now, "change": change, "name": name, "record": record, "zone": zone.to_text()}
    )
