"""All paths of the control door.

Path: lifecycle.py gives pages() to each address that `control` or -control names; http_stream.py sends them.
Rule: ROUTES is the only list of paths.  A new one is a row here, a module beside this one and a path in
      docs/openapi.yaml; a change that an old client would misread gets /v2/ beside /v1/.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from hsdns.http_page import Asked, HttpStream
from hsdns.server.control.changes import changes
from hsdns.server.control.door import Door
from hsdns.server.control.explain import explain
from hsdns.server.control.faults import faults, hits
from hsdns.server.control.names import names
from hsdns.server.control.state import state, version

JSON: Final = "application/json"
LINES: Final = "application/jsonl"


class Route(NamedTuple):
    """What is answered at a path: the pieces of a page, made between queries, for these parameters and methods."""

    pieces: Callable[[Door, Asked], AsyncGenerator[bytes, None]]
    content_type: str
    parameters: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET",)


ROUTES: Final[Mapping[str, Route]] = {
    "/version": Route(version, JSON),
    "/v1/server": Route(state, JSON),
    "/v1/names": Route(names, LINES),
    "/v1/changes": Route(changes, LINES),
    "/v1/explain": Route(explain, JSON, ("name", "type")),
    "/v1/faults": Route(faults, LINES, ("name",), ("GET", "POST", "DELETE")),
    "/v1/faults/hits": Route(hits, LINES),
}


def pages(door: Door, token: str | None) -> dict[str, HttpStream]:
    """The pages of an address."""
    return {
        path: HttpStream(
            route.content_type, partial(route.pieces, door), token, route.parameters, route.methods
        )
        for path, route in ROUTES.items()
    }
