"""Changes of a made-up cluster at a rate, in the API that the server under test watches and in the truth at once.

Path: cli/load.py (-churn, -api) -> here -> the truth's own store, then api.py.
Rule 1: a change is one address of one Service replaced, as if a pod had been; the seed of the cluster says which.
Rule 2: the truth has a change before any server can see it: there is one clock, and no answer is early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hsdns.cluster.objects import Upserted
from hsdns.cluster.source import Deliver
from hsdns.load.api import ClusterApi
from hsdns.load.api_history import ApiHistory
from hsdns.sources.synthetic_cluster import Shape, SyntheticCluster

TICK: Final = 0.002  # seconds between two batches of changes at least


class Churn:
    """A cluster of a shape; `deliver` takes events for the truth, which has the same cluster already."""

    def __init__(self, shape: Shape, deliver: Deliver, clock: Callable[[], float]) -> None:
        self.history = ApiHistory()
        self._cluster = SyntheticCluster(shape)
        self._deliver = deliver
        self._clock = clock
        for found in self._cluster.objects():
            self.history.put(found)

    def change(self) -> None:
        """Make one change."""
        changed = self._cluster.change()
        self._deliver([Upserted(changed)])
        self.history.put(changed)

    def due(self, rate: float, begin: float, made: int) -> int:
        """How many changes are to be made now, at `rate` a second since `begin`, of which `made` are made."""
        return max(0, int((self._clock() - begin) * rate) - made)

    async def run(self, api: ClusterApi, rate: float) -> None:
        """Make changes until cancelled."""
        begin, made = self._clock(), 0
        while True:
            await asyncio.sleep(max(TICK, begin + (made + 1) / rate - self._clock()))
            count = self.due(rate, begin, made)
            for _ in range(count):
                self.change()
            made += count
            if count:
                api.changed()
