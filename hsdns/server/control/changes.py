"""Streams the changes in DNS from now on: /v1/changes.

Path: routes.py -> here -> cluster/answer_set.py.

Finds the changes in DNS since its reader's last poll:
Rule 1: the server records nothing for readers.  Each reader compares the current states of the stores with those of its
        last poll, and costs nothing after it has disconnected.  So a record that is added and removed between two polls
        is not reported, and a slow reader gets several changes as one; the server never holds more than one old state
        for a reader.
Rule 2: after a reload, the comparison continues with the states from before.  A kubernetes block is compared with the
        previous block of the same zones; a block with new zones begins with its current state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from hsdns.cluster.answer_set import Changes
from hsdns.http_page import PageRequest
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.door import Door, kubernetes_blocks, time_text, to_line
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

POLL: Final = 0.1  # seconds between two polls


@dataclass
class _Followed:
    """A kubernetes block and the last state of it that the reader has seen; None until the cluster has been read."""

    plugin: Kubernetes
    seen: int = -1
    changes: Changes | None = None


class ChangeFollower:
    """The last states of the kubernetes blocks that a reader has seen; none at first."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._instance: Instance | None = None
        self._followed: dict[tuple[Name, ...], _Followed] = {}

    @property
    def blocks(self) -> list[Kubernetes]:
        """The kubernetes blocks that are followed."""
        return [each.plugin for each in self._followed.values()]

    @property
    def zones(self) -> list[str]:
        """The zones that are followed."""
        return [zone.to_text() for zones in self._followed for zone in zones]

    def follow(self) -> bool:
        """Follow the serving instance from now on; return whether it is another one."""
        instance = self._door.serving()
        if instance is self._instance:
            return False
        self._instance = instance
        self._followed = _follow(self._followed, kubernetes_blocks(instance))
        return True

    async def look(self, turn: Turn) -> AsyncGenerator[list[tuple[Name, str]], None]:
        """The changes since the last poll: zones, and lines such as `+ 10.244.0.7 web.shop.svc.cluster.local`."""
        for each in self._followed.values():
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
                    yield piece


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
        elif plugin.store.serves:  # compared at once, so that changes after this call are found
            known.seen = plugin.store.changes
            known.changes = Changes(plugin.answer_set())
    return followed


def to_words(text: str) -> tuple[str, str, str]:
    """The parts of a line: `added` or `removed`, the name with its final dot, and the record."""
    sign, _, fact = text.partition(" ")
    record, _, name = fact.rpartition(" ")
    return "added" if sign == "+" else "removed", f"{name}.", record


async def changes(door: Door, _: PageRequest) -> AsyncGenerator[bytes, None]:
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
