"""What changes in DNS from now on: /v1/changes.

Path: routes.py -> here -> cluster/changes.py.
Rule 1: nothing is noted for readers that do not come: each one compares the states of the stores with those that it saw
        before, and costs nothing once it has gone.  So what comes and goes within POLL is not seen, and a slow reader
        sees several changes as one; it never makes the server hold more than one old state.
Rule 2: the stream goes on at a reload.  A kubernetes block with the same zones is compared with the one before; another
        one begins with the state that it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hsdns.cluster.changes import Changes
from hsdns.http_page import Asked
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

POLL: Final = 0.1  # seconds
WORDS: Final = {"+": "added", "-": "removed"}


@dataclass
class _Followed:
    """A kubernetes block, and the state of it that the reader knows; none until the cluster has been read."""

    plugin: Kubernetes
    seen: int = -1
    changes: Changes | None = None


async def changes(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write a line for each fact that changes; the first line, and one after each reload, has the zones."""
    turn = Turn(door.clock)
    instance: Instance | None = None
    followed: dict[tuple[Name, ...], _Followed] = {}
    door.serving()
    while (current := door.instance()) is not None:
        if current is not instance:
            instance = current
            followed = _follow(followed, kubernetes_blocks(instance))
            zones = [zone.to_text() for known in followed for zone in known]
            yield to_line({"time": _now(door), "zones": zones})
        for each in followed.values():
            store = each.plugin.store
            if not store.serves or store.changes == each.seen:
                continue
            each.seen = store.changes
            if each.changes is None:
                each.changes = Changes(each.plugin.answer_set())
                continue
            for piece in each.changes.pieces():
                await turn.end_if_long()
                if piece:
                    now = _now(door)
                    yield b"".join(_line(now, zone, text) for zone, text in piece)
        await asyncio.sleep(POLL)


def _follow(
    before: dict[tuple[Name, ...], _Followed], blocks: list[Kubernetes]
) -> dict[tuple[Name, ...], _Followed]:
    followed = {}
    for plugin in blocks:
        known = followed[plugin.zones] = _Followed(plugin)
        old = before.get(plugin.zones)
        if old is not None and old.changes is not None:
            known.changes = old.changes
            known.changes.follow(plugin.answer_set())
        elif (
            plugin.store.serves
        ):  # at once, so that what happens after the line with the zones is seen
            known.seen = plugin.store.changes
            known.changes = Changes(plugin.answer_set())
    return followed


def _line(now: str, zone: Name, text: str) -> bytes:
    """A line of cluster/changes.py, such as `+ 10.244.0.7 web.shop.svc.cluster.local`, as JSON."""
    sign, _, fact = text.partition(" ")
    record, _, name = fact.rpartition(" ")
    return to_line(
        {
            "time": now,
            "change": WORDS[sign],
            "name": f"{name}.",
            "record": record,
            "zone": zone.to_text(),
        }
    )


def _now(door: Door) -> str:
    return datetime.fromtimestamp(door.wall(), UTC).isoformat(timespec="milliseconds")
