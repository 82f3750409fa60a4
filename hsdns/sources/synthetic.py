"""The source `synthetic NAME=VALUE...`: a generated cluster for load tests, with a constant rate of changes.

Path: SyntheticCluster (objects) and Pace (timing) -> deliver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, Self

from hsdns.cluster.objects import Synced, Upserted
from hsdns.cluster.reading import Lead, Reading
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.corefile.properties import integer, number
from hsdns.corefile.tree import Token
from hsdns.sources.setting import read_settings
from hsdns.sources.synthetic_cluster import MAX_ENDPOINTS, MAX_SERVICES, Shape, SyntheticCluster

_BATCH = 4096  # objects per delivery at the start, to limit memory
_TICK_SECONDS = 0.05  # maximum delay of a change


SETTINGS: Final[dict[str, Callable[[Token], Any]]] = {
    "services": integer(0, MAX_SERVICES),
    "endpoints": integer(0, 10_000),
    "headless": number(0, 1),
    "dual_stack": number(0, 1),
    "changes": number(0, 100_000),
    "seed": integer(0),
}


class Pace:
    """Computes how many changes are due; after a stall, at most those of one second."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._start = now
        self._done = 0

    def due(self, now: float) -> int:
        """Return the number of changes to make now."""
        count = int((now - self._start) * self._rate) - self._done
        most = max(1, int(self._rate))
        self._done += count
        return min(count, most)

    @property
    def pause(self) -> float:
        """Seconds until the next call of due()."""
        return max(1.0 / self._rate, _TICK_SECONDS)


class Synthetic:
    """A generated cluster; `changes` are events per second."""

    def __init__(self, shape: Shape, changes: float = 0.0) -> None:
        self.shape = shape
        self.changes = changes
        self._cluster = SyntheticCluster(shape)

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Parse the settings; raise CorefileError."""
        del base_dir  # no setting is a path
        values = read_settings(name, args, SETTINGS)
        changes: float = values.pop("changes", 0.0)
        shape = Shape(**values)
        total = shape.services * shape.endpoints
        if total > MAX_ENDPOINTS:
            raise name.error(
                f"{total} endpoints are more than the {MAX_ENDPOINTS} available addresses; lower services or endpoints"
            )
        if changes and not total:
            raise name.error(
                "without services and endpoints there is nothing to change; remove changes"
            )
        return cls(shape, changes)

    def __str__(self) -> str:
        """Return the name of the source and its settings."""
        return f"synthetic {self.shape}"

    def check(self) -> list[str]:
        """Return an empty list: nothing can be missing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the whole cluster, then Synced."""
        objects = self._cluster.objects()
        while batch := [Upserted(each) for each in islice(objects, _BATCH)]:
            deliver(batch)
        deliver([Synced()])

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver changes at the configured rate, until cancelled."""
        if not self.changes:
            await asyncio.get_running_loop().create_future()  # cancelled with the task
        loop = asyncio.get_running_loop()
        pace = Pace(self.changes, loop.time())
        while True:
            await asyncio.sleep(pace.pause)
            events = [Upserted(self._cluster.change()) for _ in range(pace.due(loop.time()))]
            if events:
                deliver(events)

    async def read(self, lead: Lead) -> Reading:
        """Make the objects for a question, without pods: a synthetic cluster has none."""
        return Reading(tuple(self._cluster.find(lead)))

    def silence(self, now: float) -> float:
        """Always 0: the source generates the cluster itself."""
        return 0.0
