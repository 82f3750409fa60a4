"""All paths of the control API.

Path: lifecycle.py gives pages() to each address that `control` or --control names; server/http/pages.py sends them.
Rule: ROUTES is the only list of paths.  A new path needs a row here and a path in
      docs/openapi.yaml.  A change that an old client would misread gets a path below /v2/, and the path below /v1/
      stays.

The web page for people: /:
Rule 1: the page is one static file without data of the server, so it is sent without a token; the page asks for the
        token.
Rule 2: the Content-Security-Policy allows the browser to run and show only the contents of the file: no script from
        text in DNS data, and nothing from other origins.  Trusted types prevent text from becoming HTML by mistake.

Whether the server is ready, for clients that wait until it answers: /ready:
Rule: this page needs no token, because probes have none; so it contains only names of plugins.

The version, process and configuration of the server: /version and /v1/server.

Lists all names of the kubernetes blocks, with their records: /v1/names:
Rule: one line for each RRset, and at the end one sentence for each kind of name that cannot be listed.  If something
      makes the list incomplete, a line with `problem` says what.

Sends JSON lines as server-sent events, for pages in a browser: /v1/top/events:
Source: HTML standard, section 9.2 (Server-sent events): each event is `data: LINE` and an empty line.

The position of a replay, and its commands: /v1/replay:
Rule: when a command is answered, replies to queries already contain its changes.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec

from hsdns import __version__
from hsdns.cluster.answer_set import listed
from hsdns.corefile.tree import did_you_mean
from hsdns.http_page import (
    TEXT,
    AccessToken,
    HttpRefusal,
    HttpStream,
    PageRequest,
    content_policy,
)
from hsdns.plugin import Readiness
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.cluster import PARAMETERS as WATCH_PARAMETERS
from hsdns.server.control.cluster import changes, watch
from hsdns.server.control.door import Door, in_pieces, kubernetes_blocks, to_line
from hsdns.server.control.explain import PARAMETERS as EXPLAIN_PARAMETERS
from hsdns.server.control.explain import explain
from hsdns.server.control.faults import faults, hits
from hsdns.server.control.queries import FILTERS, QUERY_PARAMETERS, TOP_PARAMETERS, queries, top
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.sources.replay import MAX_SPEED, Course, Replay

HTML: Final = "text/html; charset=utf-8"
FILE: Final = Path(__file__).with_name("page.html")


async def page(
    door: Door, asked: PageRequest, *, takes_faults: bool = False
) -> AsyncGenerator[bytes, None]:
    """Send the file; where it `takes_faults`, it has a form for their rules."""
    yield _content().replace(b"<html", b"<html data-faults", 1) if takes_faults else _content()


@cache
def headers() -> Mapping[str, str]:
    """The policy for the browser."""
    more = {"connect_src": "'self'", "img_src": "data:", "frame_ancestors": "'none'"}
    return {"Content-Security-Policy": content_policy(_content().decode(), **more)}


@cache
def _content() -> bytes:
    return FILE.read_bytes()


async def ready(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write OK; raise HttpRefusal with status 503 while the server starts, stops, or waits for a source."""
    unready = Readiness.of(door.serving().configuration.plugins).unready
    if unready:
        raise HttpRefusal(503, f"not ready yet: {', '.join(sorted(unready))}")
    yield b"OK\n"


API: Final = ("v1",)  # all API versions in ROUTES


async def version(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Report program and version; this page is the same in all versions of the API."""
    yield to_line({"server": "hsdns", "version": __version__, "pid": os.getpid(), "api": API})


async def state(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Describe the process and the serving configuration."""
    yield to_line(await describe(door))


async def describe(door: Door) -> dict[str, Any]:
    """The process and the serving configuration, as /v1/server and `hsdns serve -o json` show them."""
    instance, turn = door.serving(), Turn(door.clock)
    plugins = kubernetes_blocks(instance)
    corefile = instance.configuration.corefile
    found: dict[str, Any] = {
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(door.clock() - door.began, 3),
        "dashboard": door.page(),
        "corefile": {"path": corefile.path, "digest": corefile.digest},
        "listeners": [],
        "server_blocks": [],
        "kubernetes": [],
    }
    await _describe(instance, found, turn)
    for plugin in plugins:
        found["kubernetes"].append(_source(plugin))
        await turn.end_if_long()
    return found


async def _describe(instance: Instance, found: dict[str, Any], turn: Turn) -> None:
    known = instance.listeners.addresses
    for served in tuple(instance.configuration.listeners):
        listen = served.listen
        found["listeners"].append(
            {
                "server": listen.server,
                "scheme": listen.scheme,
                "host": listen.host,
                "port": known[listen].port if listen in known else listen.port,
                "zones": sorted(zone.to_text() for zone in served.served),
            }
        )
        await turn.end_if_long()
    for block in instance.configuration.blocks:
        why_not, stores_cached = block.policy.reason, block.policy.stores_cached
        found["server_blocks"].append(
            {
                "keys": [key.token.text for key in block.keys],
                "zones": list(dict.fromkeys(key.zone.to_text() for key in block.keys)),
                "listeners": [listen.server for listen in block.listens],
                "plugins": [plugin.name for plugin in block.plugins],
                "stored": "cached" if stores_cached and why_not else "none" if why_not else "all",
                "reason": why_not,
            }
        )
        await turn.end_if_long()


def _source(plugin: Kubernetes) -> dict[str, Any]:
    """A kubernetes block; its last change is the time in its SOA serial, in whole seconds."""
    serial = plugin.store.serial
    changed = datetime.fromtimestamp(serial, UTC).isoformat() if serial else None
    return {
        "zones": [zone.to_text() for zone in plugin.zones],
        "source": str(plugin.source),
        "ready": plugin.ready(),
        "remark": plugin.remark(),
        "services": len(plugin.store.services.values),
        "last_change": changed,
    }


async def names(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """List the names."""
    instance = door.serving()
    blocks = kubernetes_blocks(instance)
    if not blocks:
        path = instance.configuration.corefile.path
        raise HttpRefusal(
            404, f"{path}: there is no kubernetes block, so there are no names to list"
        )
    async for piece in in_pieces(_names(blocks), Turn(door.clock)):
        yield piece


def _names(blocks: list[Kubernetes]) -> Iterator[bytes]:
    """The lines, and nothing where they may be interrupted."""
    for block in blocks:
        zones = " ".join(zone.to_text() for zone in block.zones)
        remark = block.remark() if block.store.serves else "the cluster has not been read yet"
        if remark:
            yield to_line({"problem": f"kubernetes {zones}: {remark}"})
    for line in listed(block.answer_set() for block in blocks if block.store.serves):
        yield b"" if line is None else to_line(line)


EVENTS: Final = "text/event-stream"
Lines = Callable[[Door, PageRequest], AsyncGenerator[bytes, None]]


def events(lines: Lines) -> Lines:
    """A page that sends each line of another page as an event."""

    async def made(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        async with aclosing(lines(door, asked)) as pieces:
            async for piece in pieces:
                yield b"".join(b"data: %b\n\n" % line for line in piece.splitlines())

    return made


WAIT: Final = 10.0  # seconds to wait for the watch thread
MOST: Final = 1_000_000  # changes in one step
NO_REPLAY: Final = (
    "this server replays no recording; start one with hsdns serve --source replay FILE"
)
COMMANDS: Final = ("pause", "run", "step", "speed")


class Command(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST: the command, and the number of changes in a step or the new speed."""

    command: str
    count: int | None = None
    speed: float | None = None


async def replay(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Report the position of each replay; with POST, after a command to all of them."""
    instance = door.serving()
    blocks = kubernetes_blocks(instance)
    sources = {id(each.source): each.source for each in blocks if isinstance(each.source, Replay)}
    if not sources:
        raise HttpRefusal(404, NO_REPLAY)
    for source in sources.values():
        if not source.is_loaded:
            raise HttpRefusal(404, f"{source.path} could not be read when the server started")
    act = _read(asked.body) if asked.method == "POST" else Replay.course
    in_watch = instance.in_watch
    try:
        found = [await in_watch(act(source), WAIT) for source in sources.values()]
    except TimeoutError:
        raise HttpRefusal(503, "the replay is busy; try again in a moment") from None
    for course in found:
        yield to_line(course._asdict())


def _read(body: bytes) -> Callable[[Replay], Coroutine[Any, Any, Course]]:
    """The action of a command on a replay; raise HttpRefusal."""
    try:
        given = msgspec.json.decode(body, type=Command)
    except msgspec.DecodeError as error:
        raise HttpRefusal(400, f'a command is {{"command": "step", "count": 1}}: {error}') from None
    name, count, speed = given.command, given.count, given.speed
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or f"; there are {', '.join(COMMANDS)}"
        raise HttpRefusal(400, f'"{name}" is not a command of a replay{hint}')
    if count is not None and name != "step":
        raise HttpRefusal(400, f"{name} takes no count; step does")
    if speed is not None and name != "speed":
        raise HttpRefusal(400, f"{name} takes no speed; speed does")
    if name == "step":
        steps = 1 if count is None else count
        if not 1 <= steps <= MOST:
            raise HttpRefusal(400, f"step takes a number of changes from 1 to {MOST}, not {steps}")
        return lambda source: source.step(steps)
    if name == "speed":
        if speed is None or not 0 <= speed <= MAX_SPEED:
            raise HttpRefusal(400, f"speed takes a number from 0, for no waiting, to {MAX_SPEED}")
        factor = speed
        return lambda source: source.set_speed(factor)
    return Replay.pause if name == "pause" else Replay.run


JSON: Final = "application/json"
LINES: Final = "application/jsonl"


# Their pieces take the door first.
ROUTES: Final[Mapping[str, HttpStream]] = {
    "/": HttpStream(HTML, page, headers=headers()),
    "/ready": HttpStream(TEXT, ready, any_host=True),
    "/version": HttpStream(JSON, version),
    "/v1/server": HttpStream(JSON, state),
    "/v1/names": HttpStream(LINES, names),
    "/v1/changes": HttpStream(LINES, changes, is_endless=True),
    "/v1/watch": HttpStream(LINES, watch, parameters=WATCH_PARAMETERS, is_endless=True),
    "/v1/explain": HttpStream(JSON, explain, parameters=EXPLAIN_PARAMETERS),
    "/v1/queries": HttpStream(LINES, queries, parameters=QUERY_PARAMETERS, is_endless=True),
    "/v1/top": HttpStream(LINES, top, parameters=TOP_PARAMETERS, is_endless=True),
    "/v1/top/events": HttpStream(EVENTS, events(top), parameters=FILTERS, is_endless=True),
    "/v1/replay": HttpStream(LINES, replay, methods=("GET", "POST")),
    "/v1/faults": HttpStream(LINES, faults, None, ("name", "dry-run"), ("GET", "POST", "DELETE")),
    "/v1/faults/hits": HttpStream(LINES, hits, is_endless=True),
}


# The pages of `dashboard`: the page and its requests.  They only read, because any client that can connect may use
# them.
DASHBOARD: Final = ("/", "/v1/explain", "/v1/top/events")


# These contain no data of the server, or only whether it is ready, and need no token.
OPEN: Final = ("/", "/ready")


def pages(door: Door, token: str | None) -> dict[str, HttpStream]:
    """The pages of an address of the control API."""
    known = None if token is None else AccessToken(token)
    found = {
        path: each._replace(
            pieces=partial(each.pieces, door), token=None if path in OPEN else known
        )
        for path, each in ROUTES.items()
    }
    pieces = partial(page, door, takes_faults=door.faults is not None)
    return {**found, "/": found["/"]._replace(pieces=pieces)}


def dashboard(door: Door) -> dict[str, HttpStream]:
    """The pages of an address of `dashboard`."""
    return {
        path: ROUTES[path]._replace(pieces=partial(ROUTES[path].pieces, door), is_public=True)
        for path in DASHBOARD
    }
