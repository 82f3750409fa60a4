"""All paths of the control door.

Path: lifecycle.py gives pages() to each address that `control` or -control names; http_connection.py sends them.
Rule: ROUTES is the only list of paths.  A new path needs a row here, a module beside this one and a path in
      docs/openapi.yaml.  A change that an old client would misread gets a path below /v2/, and the path below /v1/
      stays.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from hsdns.http_page import AccessToken, Asked, HttpStream
from hsdns.server.control.changes import changes
from hsdns.server.control.door import Door
from hsdns.server.control.events import EVENTS, events
from hsdns.server.control.explain import PARAMETERS as EXPLAIN_PARAMETERS
from hsdns.server.control.explain import explain
from hsdns.server.control.faults import faults, hits
from hsdns.server.control.names import names
from hsdns.server.control.page import HTML, headers, page
from hsdns.server.control.queries import PARAMETERS as QUERY_PARAMETERS
from hsdns.server.control.queries import queries
from hsdns.server.control.query_filter import FILTERS
from hsdns.server.control.ready import ready
from hsdns.server.control.replay import replay
from hsdns.server.control.state import state, version
from hsdns.server.control.top.picture import PARAMETERS as TOP_PARAMETERS
from hsdns.server.control.top.picture import top
from hsdns.server.control.watch import PARAMETERS as WATCH_PARAMETERS
from hsdns.server.control.watch import watch

JSON: Final = "application/json"
LINES: Final = "application/jsonl"
TEXT: Final = "text/plain; charset=utf-8"


class Route(NamedTuple):
    """The handler of a path: it yields the parts of a page, for these parameters and methods.

    A route without a token contains no data of the server, or with `any_host` only whether it is ready.
    """

    pieces: Callable[[Door, Asked], AsyncGenerator[bytes, None]]
    content_type: str
    parameters: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET",)
    needs_token: bool = True
    headers: Mapping[str, str] = {}
    any_host: bool = False
    is_endless: bool = False


ROUTES: Final[Mapping[str, Route]] = {
    "/": Route(page, HTML, needs_token=False, headers=headers()),
    "/ready": Route(ready, TEXT, needs_token=False, any_host=True),
    "/version": Route(version, JSON),
    "/v1/server": Route(state, JSON),
    "/v1/names": Route(names, LINES),
    "/v1/changes": Route(changes, LINES, is_endless=True),
    "/v1/watch": Route(watch, LINES, WATCH_PARAMETERS, is_endless=True),
    "/v1/explain": Route(explain, JSON, EXPLAIN_PARAMETERS),
    "/v1/queries": Route(queries, LINES, QUERY_PARAMETERS, is_endless=True),
    "/v1/top": Route(top, LINES, TOP_PARAMETERS, is_endless=True),
    "/v1/top/events": Route(events(top), EVENTS, FILTERS, is_endless=True),
    "/v1/replay": Route(replay, LINES, (), ("GET", "POST")),
    "/v1/faults": Route(faults, LINES, ("name", "dry-run"), ("GET", "POST", "DELETE")),
    "/v1/faults/hits": Route(hits, LINES, is_endless=True),
}


# The pages of `dashboard`: the page and its requests.  They only read, because any client that can connect may use
# them.
DASHBOARD: Final = ("/", "/v1/explain", "/v1/top/events")


def pages(door: Door, token: str | None) -> dict[str, HttpStream]:
    """The pages of an address of the control door."""
    found = None if token is None else AccessToken(token)
    return {path: _stream(route, door, found) for path, route in ROUTES.items()}


def dashboard(door: Door) -> dict[str, HttpStream]:
    """The pages of an address of `dashboard`."""
    return {path: _stream(ROUTES[path], door, None, is_public=True) for path in DASHBOARD}


def _stream(
    route: Route, door: Door, token: AccessToken | None, *, is_public: bool = False
) -> HttpStream:
    return HttpStream(
        route.content_type,
        partial(route.pieces, door),
        token if route.needs_token else None,
        route.parameters,
        route.methods,
        route.headers,
        is_public,
        route.any_host,
        route.is_endless,
    )
