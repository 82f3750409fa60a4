"""Streams the recent queries: /v1/queries.

Path: routes.py -> here -> query_tap.py.
Rule 1: each line is one query.  If the tap took only a part of the queries, a line with `share` gives the part that the
        lines after it show.
Rule 2: `last` returns the last queries that the server has kept, and ends; without it each new query is sent as it
        arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, time_text, to_line
from hsdns.server.control.query_filter import FILTERS, QueryFilter
from hsdns.server.query_tap import POLL, SeenQuery
from hsdns.server.runtime import Turn

PARAMETERS: Final = ("last", *FILTERS)
MOST: Final = 1000  # largest number that `last` may request
PIECE: Final = 100  # lines in one write
NOT_KEPT: Final = (
    "this server has kept no queries, because it was not started for it: hsdns serve keeps them; "
    "read /v1/queries without last to see those that come"
)


async def queries(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write a line for each query."""
    door.serving()
    wanted = QueryFilter.of(door, asked)
    turn = Turn(door.clock)
    if "last" in asked.parameters:
        count = read_count("last", asked.parameters["last"])
        if not door.queries.keeps:
            raise HttpRefusal(404, NOT_KEPT)
        found = [each for each in door.queries.last() if wanted.has(each.name)][-count:]
        for piece in _pieces(found, door.began):
            yield piece
            await turn.end_if_long()
        return
    tap = door.queries
    with tap.looking():
        share, position = 1.0, tap.collected
        yield _share(door, share)
        while door.instance() is not None:
            tap.collect()
            new, position = list(tap.since(position)), tap.collected
            if new and (now := 1 / new[-1].weight) != share:
                share = now
                yield _share(door, share)
            for piece in _pieces([each for each in new if wanted.has(each.name)], door.began):
                yield piece
                await turn.end_if_long()
            await asyncio.sleep(POLL)


def read_count(name: str, text: str) -> int:
    """Read the parameter with the number of last queries; raise HttpRefusal."""
    if text.isdecimal() and text.isascii() and len(text) < 6 and 0 < int(text) <= MOST:
        return int(text)
    raise HttpRefusal(400, f'{name} is a number of queries from 1 to {MOST}, not "{text}"')


def _pieces(found: list[SeenQuery], began: float) -> Iterable[bytes]:
    for at in range(0, len(found), PIECE):
        yield b"".join(to_line(to_object(each, began)) for each in found[at : at + PIECE])


def _share(door: Door, share: float) -> bytes:
    at = round(door.clock() - door.began, 6)
    return to_line({"time": time_text(door.wall()), "at": at, "share": round(share, 4)})


def to_object(seen: SeenQuery, began: float) -> dict[str, Any]:
    """The members of a query's line; `began` is the start of the server, in monotonic seconds."""
    return {
        "time": time_text(seen.time),
        "at": round(seen.at - began, 6),
        "server": seen.server,
        "client": seen.client,
        "transport": seen.transport,
        "name": seen.name.to_text(),
        "type": seen.type,
        "rcode": seen.rcode,
        "duration_ms": round(seen.seconds * 1000, 3),
        "answered_by": "table" if seen.is_hit else "chain",
        "size": seen.size,
        "truncated": seen.is_truncated,
    }
