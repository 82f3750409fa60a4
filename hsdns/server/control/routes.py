"""All paths of the control door.

Path: lifecycle.py gives pages() to each address that `control` or -control names; http_stream.py sends them.
Rule: ROUTES is the only list of paths.  A new one is a row here, a module beside this one and a path in
      docs/openapi.yaml; a change that an old client would misread gets /v2/ beside /v1/.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from hsdns.http_page import HttpRefusal, HttpStream
from hsdns.server.control.changes import changes
from hsdns.server.control.door import Door
from hsdns.server.control.names import names
from hsdns.server.control.state import state, version

JSON: Final = "application/json"
LINES: Final = "application/jsonl"


class Route(NamedTuple):
    """What is answered at a path: the pieces of a page, made between queries."""

    pieces: Callable[[Door], AsyncGenerator[bytes, None]]
    content_type: str


ROUTES: Final[Mapping[str, Route]] = {
    "/version": Route(version, JSON),
    "/v1/server": Route(state, JSON),
    "/v1/names": Route(names, LINES),
    "/v1/changes": Route(changes, LINES),
}


def pages(door: Door, token: str | None) -> dict[str, HttpStream]:
    """The pages of an address."""
    return {
        path: HttpStream(route.content_type, partial(_pieces, door, path), token)
        for path, route in ROUTES.items()
    }


async def _pieces(door: Door, path: str, query: str) -> AsyncGenerator[bytes, None]:
    if query:
        raise HttpRefusal(400, f"{path} has no parameters; leave out ?{query}")
    async for piece in ROUTES[path].pieces(door):
        yield piece
