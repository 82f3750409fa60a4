"""One cluster that is followed: its source, its store, and the tasks between them.

Path: plugins/kubernetes.py makes one, or inherits that of the instance before it -> source -> Store.apply.
Rule 1: it belongs to all plugin instances that share it.  The first start() begins it, the last stop() ends it; between
        them it goes on through any number of reloads, and nothing is listed again.
Rule 2: it keeps nothing of the configuration that began it but clocks, chance, metrics and counters, which are the
        process's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from hsdns.chain import Running, Runtime
from hsdns.cluster.objects import Event
from hsdns.cluster.source import Source
from hsdns.cluster.store import Store
from hsdns.fastpath import ClusterNames
from hsdns.metrics import Registry
from hsdns.sources.api_server import ApiServer
from hsdns.sources.snapshot_file import SnapshotFile, show_serving
from hsdns.sources.store_check import check_interval, check_store

log = logging.getLogger("hsdns.plugin.kubernetes")


@dataclass
class _World:
    """What of a runtime outlives its configuration."""

    random: Random
    metrics: Registry
    clock: Callable[[], float]
    wall: Callable[[], float]


class Following:
    """A cluster that is followed, or will be.  `snapshot` is the file that keeps its last state, None for none."""

    def __init__(self, source: Source, store: Store, snapshot: SnapshotFile | None = None) -> None:
        self.source = source
        self.store = store
        self.names = ClusterNames()
        self._snapshot = snapshot
        self._sharers = 0
        self._tasks: list[Running] = []
        self._metrics: Registry | None = None
        if isinstance(source, ApiServer):
            source.reject = self._reject

    @property
    def is_running(self) -> bool:
        """Whether it has been started, and not been given up by all."""
        return self._sharers > 0

    def start(self, runtime: Runtime) -> None:
        """Take a share; the first one loads what can be had at once, and begins to watch."""
        self._sharers += 1
        if self._sharers > 1:
            return
        self.serve_for(runtime)
        world = _World(runtime.random, runtime.metrics, runtime.clock, runtime.wall)
        self._restore()
        self.source.load(self.deliver, self._report)
        watching = self.source.watch(self.deliver, self._report, world)
        self._tasks.append(runtime.spawn_lasting(watching, "kubernetes source"))
        if self._snapshot is not None:
            keeping = self._snapshot.save_periodically(self.store, self._report, world)
            self._tasks.append(runtime.spawn_lasting(keeping, "kubernetes snapshot"))
        seconds = check_interval(self._report)
        if isinstance(self.source, ApiServer) and seconds is not None:
            checking = check_store(self.source, self.store, self._report, world, seconds)
            self._tasks.append(runtime.spawn_lasting(checking, "kubernetes store check"))

    def stop(self) -> None:
        """Give up a share; with the last one the tasks end."""
        self._sharers -= 1
        if not self._sharers:
            for task in self._tasks:
                task.cancel()
            self._tasks.clear()

    def serve_for(self, runtime: Runtime) -> None:
        """Take the clock, the counters and the metrics that are used from now on."""
        self._metrics = runtime.metrics
        self.store.use_clock(runtime.wall)
        self.store.use_counters(runtime.counters, self.names)
        self.store.count_in(runtime.metrics)

    def deliver(self, events: Sequence[Event]) -> None:
        """Take a batch of events from the source."""
        restored = self.store.restored
        self.store.apply(events)
        if restored is not None and self.store.restored is None:
            assert self._metrics is not None, "started"
            assert self._snapshot is not None, "what was restored came from it"
            show_serving(self._metrics, self._snapshot.path, self.store)
            log.info(
                "plugin/kubernetes: the cluster has been read; the snapshot is no longer served"
            )

    def _restore(self) -> None:
        """Serve the snapshot, where there is one, until the cluster has been read."""
        if self._snapshot is None:
            return
        found = self._snapshot.load(self._report)
        if found is not None:
            try:
                self.store.restore(*found)
            except (OSError, ValueError) as error:
                log.warning(
                    'plugin/kubernetes: snapshot "%s": it could be read in part only: %s',
                    self._snapshot.path,
                    error,
                )
        assert self._metrics is not None, "started"
        show_serving(self._metrics, self._snapshot.path, self.store)

    def _reject(self, kind: str, key: tuple[str, str], reason: str) -> None:
        self.store.complaints.reject(kind, *key, "form", f"it is left out: {reason}")

    def _report(self, level: int, message: str) -> None:
        log.log(level, "plugin/kubernetes: %s", message)
