"""Streams the recent queries: /v1/queries.

Path: routes.py -> here -> query_tap.py.
Rule 1: each line is one query.  If the tap took only a part of the queries, a line with `share` gives the part that the
        lines after it show.
Rule 2: `last` returns the last queries that the server has kept, and ends; without it each new query is sent as it
        arrives.

Selects names for a reader: the parameters `namespace` and `name`:
Rule: a name belongs to a namespace if it has the namespace's label at the right place in a zone of a kubernetes block,
      even if the name or the namespace does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final, NamedTuple

from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.server.control.door import Door, kubernetes_blocks, time_text, to_line
from hsdns.server.query_tap import POLL, SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

FILTERS: Final = ("namespace", "name")
KINDS: Final = (b"svc", b"pod")  # the label that follows the namespace


class QueryFilter(NamedTuple):
    """A selection: a namespace (its label) in the zones, and the names at and below a name; None selects all."""

    zones: tuple[Name, ...] = ()
    namespace: bytes | None = None
    name: Name | None = None

    @classmethod
    def of(cls, door: Door, asked: PageRequest) -> QueryFilter:
        """Read the parameters; raise HttpRefusal."""
        namespace, text = (asked.parameters.get(name) for name in FILTERS)
        name = None
        if text is not None:
            try:
                name = Name.from_text(text)
            except ValueError as error:
                raise HttpRefusal(400, f'name: "{text}" is not a domain name: {error}') from None
        if namespace is None:
            return cls(name=name)
        if not namespace or "." in namespace:
            raise HttpRefusal(400, f'namespace is one label, such as default, not "{namespace}"')
        return cls(cluster_zones(door), namespace.lower().encode(), name)

    def has(self, name: Name) -> bool:
        """Whether a name is selected."""
        if self.name is not None and not name.is_at_or_below(self.name):
            return False
        return self.namespace is None or namespace_of(name, self.zones) == self.namespace


def cluster_zones(door: Door) -> tuple[Name, ...]:
    """The zones of kubernetes blocks that contain names of Services."""
    blocks = kubernetes_blocks(door.serving())
    return tuple(dict.fromkeys(zone for each in blocks for zone in each.answer_set().forward_zones))


def namespace_of(name: Name, zones: tuple[Name, ...]) -> bytes | None:
    """The label of the namespace in a name, in lower case; None if the name has no such label."""
    zone = name.longest_of(zones)
    labels = () if zone is None else name.below(zone)
    return labels[-2] if len(labels) > 1 and labels[-1] in KINDS else None


QUERY_PARAMETERS: Final = ("last", *FILTERS)
MOST: Final = 1000  # largest number that `last` may request
PIECE: Final = 100  # lines in one write
NOT_KEPT: Final = (
    "this server has kept no queries, because it was not started for it: hsdns serve keeps them; "
    "read /v1/queries without last to see those that come"
)


async def queries(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
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
