"""Follows what changes in DNS, for one reader.

Path: changes.py and top/served_changes.py -> here -> cluster/changes.py.
Rule 1: nothing is noted for readers that do not come: each one compares the states of the stores with those that it saw
        before, and costs nothing once it has gone.  So what comes and goes between two looks is not seen, and a slow
        reader sees several changes as one; it never makes the server hold more than one old state.
Rule 2: a reload goes on with the states before.  A kubernetes block with the same zones is compared with that before;
        another one begins with the state that it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from hsdns.cluster.changes import Changes
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.door import Door, kubernetes_blocks
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

POLL: Final = 0.1  # seconds between looks


@dataclass
class _Followed:
    """A kubernetes block, and the state of it that the reader knows; none until the cluster has been read."""

    plugin: Kubernetes
    seen: int = -1
    changes: Changes | None = None


class ChangeFollower:
    """What a reader has seen of the kubernetes blocks; nothing at first."""

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
        """Follow the instance that serves from now on; tell whether that is another one."""
        instance = self._door.serving()
        if instance is self._instance:
            return False
        self._instance = instance
        self._followed = _follow(self._followed, kubernetes_blocks(instance))
        return True

    async def look(self, turn: Turn) -> AsyncGenerator[list[tuple[Name, str]], None]:
        """What has changed since the last look: zones, and lines such as `+ 10.244.0.7 web.shop.svc.cluster.local`."""
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
        elif plugin.store.serves:  # at once, so that what happens after this call is seen
            known.seen = plugin.store.changes
            known.changes = Changes(plugin.answer_set())
    return followed


def to_words(text: str) -> tuple[str, str, str]:
    """Of a line: `added` or `removed`, the name with its final dot, and the record."""
    sign, _, fact = text.partition(" ")
    record, _, name = fact.rpartition(" ")
    return "added" if sign == "+" else "removed", f"{name}.", record
