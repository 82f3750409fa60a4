"""A source whose objects another program supplies as events, in place of manifests or an API server.

Path: testing/server.py and fault_scenarios/memory_server.py put it into the kubernetes block and call push() -> the
store.
Rule: it keeps all objects, for explanations and for a server that is started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hsdns.cluster.objects import Deleted, Event, Identity, Object, Synced, Upserted, identity
from hsdns.cluster.source import Deliver, Lead, ObjectIndex, Reading, Report, Surroundings


class PushSource:
    """Delivers the events that a program hands it; `title` is its name in messages."""

    def __init__(self, events: Sequence[Event] = (), title: str = "objects handed over") -> None:
        self._title = title
        self._deliver: Deliver = lambda events: None
        self._objects: dict[Identity, Object] = {}
        self._note(events)

    def __str__(self) -> str:
        return self._title

    def check(self) -> list[str]:
        """An empty list: nothing is missing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the current objects."""
        self._deliver = deliver
        deliver([*map(Upserted, self._objects.values()), Synced()])

    def push(self, events: Sequence[Event]) -> None:
        """Deliver events."""
        self._note(events)
        self._deliver(events)

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Upserted | Deleted):
                found = event.object
                key = identity(found)
                self._objects.pop(key, None)
                if isinstance(event, Upserted):
                    self._objects[key] = found

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Wait until cancelled: push() delivers."""
        await asyncio.Event().wait()

    async def read(self, lead: Lead) -> Reading:
        """Find the objects for a question."""
        return Reading(tuple(ObjectIndex(self._objects.values()).find(lead)))

    def silence(self, now: float) -> float:
        """Always 0: the events define the state."""
        return 0.0
