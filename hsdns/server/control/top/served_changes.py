"""The last changes in DNS, with the time from the write of an object to its answers.

Path: picture.py -> here -> change_follower.py, cluster/history.py.
Rule: the time of the write is only known for EndpointSlices, because their controller records it in an annotation
      (cluster/programming.py).  Other changes only have the time at which the reader noticed them.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from hsdns.cluster.programming import read_time
from hsdns.cluster.services import DELETED
from hsdns.cluster.value import Key
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.change_follower import ChangeFollower, to_words
from hsdns.server.control.door import Door, time_text
from hsdns.server.control.query_filter import QueryFilter
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

MOST: Final = 10


class ServedChanges:
    """The changes since a reader connected, the newest last."""

    def __init__(self, door: Door, wanted: QueryFilter) -> None:
        self._door, self._wanted = door, wanted
        self._follower = ChangeFollower(door)
        self._follower.follow()
        self._last: deque[dict[str, Any]] = deque(maxlen=MOST)
        self._looked = door.wall()

    async def take(self, turn: Turn) -> list[dict[str, Any]]:
        """The last changes."""
        self._follower.follow()
        since, self._looked = self._looked, self._door.wall()
        async for piece in self._follower.look(turn):
            written = _written(self._follower.blocks, since)
            self._last.extend(
                found
                for zone, text in piece
                if (found := self._row(zone, text, written)) is not None
            )
        return list(self._last)

    def _row(
        self, zone: Name, text: str, written: dict[Key, tuple[float, float]]
    ) -> dict[str, Any] | None:
        change, name, record = to_words(text)
        qname = Name.from_text(name)
        if not self._wanted.has(qname):
            return None
        labels = qname.below(zone)
        times = written.get((labels[-2], labels[-3])) if len(labels) > 2 else None
        served = self._door.wall() if times is None else times[1]
        return {
            "time": time_text(served),
            "change": change,
            "name": name,
            "record": record,
            "written": None if times is None else time_text(times[0]),
            "served_ms": None if times is None else round((times[1] - times[0]) * 1000, 1),
        }


def _written(blocks: list[Kubernetes], since: float) -> dict[Key, tuple[float, float]]:
    """When the last EndpointSlice of a Service was written and served, in seconds since the epoch."""
    found: dict[Key, tuple[float, float]] = {}
    for each in blocks:
        for noted in each.store.services.history.since(since):
            at = read_time(noted.written) if noted.event != DELETED else None
            if at is not None:
                found.setdefault(noted.service, (at, noted.served))
    return found
