"""Changes a simulated cluster at a rate, in the API that the servers under test watch and in truth.py's store.

Path: cli/load.py (-churn, -api) -> here, with the changes of changes.py -> the truth's own store, then api.py.
Rule 1: the seed determines the changes; a change is written when it is due, late ones at once.
Rule 2: truth.py has a change before any server can see it: there is one clock, and no answer is early.
Rule 3: a change counts as written when the API has it, which is after truth.py has it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from hsdns.cluster.objects import EndpointSlice, Upserted
from hsdns.cluster.source import Deliver
from hsdns.load.api import ClusterApi
from hsdns.load.api_history import ApiHistory
from hsdns.load.changes import Changes
from hsdns.sources.synthetic import Shape, SyntheticCluster

TICK: Final = 0.002  # minimum seconds between two batches of changes
Written = Callable[[str, float], None]


class Pace:
    """When changes are due: `rate` per second since its creation; `clock` gives monotonic seconds."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._begin = clock()
        self.made = 0

    def due(self) -> int:
        """The number of changes due now; they then count as made."""
        count = max(0, int((self._clock() - self._begin) * self._rate) - self.made)
        self.made += count
        return count

    def left(self) -> float:
        """Seconds until the next change is due."""
        return max(TICK, self._begin + (self.made + 1) / self._rate - self._clock())


class Churn:
    """A cluster of a shape; `deliver` takes events for truth.py, which already has the same cluster.

    `written` takes the resourceVersion of each change, and when it was written.
    """

    def __init__(
        self,
        shape: Shape,
        kinds: Mapping[str, int],
        seed: int,
        deliver: Deliver,
        clock: Callable[[], float],
        written: Written = lambda version, time: None,
    ) -> None:
        self.history = ApiHistory()
        self._deliver = deliver
        self._clock = clock
        self._written = written
        self._kinds, self._seed = kinds, seed
        self._cluster = SyntheticCluster(shape)
        self._slices: list[EndpointSlice] = []
        self._changes: Changes | None = None
        for found in self._cluster.objects():
            self.history.put(found)
            if isinstance(found, EndpointSlice) and found.address_type == "IPv4":
                self._slices.append(found)

    def change(self) -> str:
        """Make one change and return its resourceVersion; raise LoadError if there is nothing to change."""
        found = self._made().next()
        # The store ignores an object with the version that it already has.
        version = str(self.history.version + 1)
        changed = structs.replace(
            found, metadata=structs.replace(found.metadata, resource_version=version)
        )
        self._deliver([Upserted(changed)])
        self.history.put(changed)
        return version

    def _made(self) -> Changes:
        if self._changes is None:
            unused = self._cluster.unused_addresses()
            self._changes = Changes(self._slices, self._kinds, self._seed, unused)
        return self._changes

    async def run(self, api: ClusterApi, rate: float) -> None:
        """Make changes until cancelled."""
        self._made()  # takes a while, so before the first change is due
        pace = Pace(rate, self._clock)
        while True:
            await asyncio.sleep(pace.left())
            changed = [self.change() for _ in range(pace.due())]
            now = self._clock()
            for version in changed:
                self._written(version, now)
            if changed:
                api.changed()
