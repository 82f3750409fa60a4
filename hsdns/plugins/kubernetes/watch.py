"""The watch of one cluster: its source, its store, and the tasks that keep the store up to date.

Path: the kubernetes plugin makes a watch, or takes over that of the instance before a reload; source -> Store.apply.
Rule 1: all plugin instances with the same configuration share a watch.  The first start() begins it, the last stop()
        ends it; reloads in between neither end it nor list anything again.
Rule 2: of the runtime that began it, it only keeps what belongs to the process: clocks, randomness, metrics, counters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from hsdns.cluster.objects import Event
from hsdns.cluster.source import Source
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import ClusterNames
from hsdns.metrics import Registry
from hsdns.plugin import Running, Runtime
from hsdns.sources.api_server import ApiServer
from hsdns.sources.snapshot_file import SnapshotFile, show_serving
from hsdns.sources.store_check import check_interval, check_store

log = logging.getLogger("hsdns.plugin.kubernetes")


@dataclass
class _Process:
    """The parts of a runtime that belong to the process, not to a configuration (source.Surroundings)."""

    random: Random
    metrics: Registry
    clock: Callable[[], float]
    wall: Callable[[], float]


class ClusterWatch:
    """The watch of a cluster, which makes the store when it is first started.

    `snapshot` is the file for the last known state, None for none.
    """

    def __init__(
        self, source: Source, settings: StoreSettings, snapshot: SnapshotFile | None = None
    ) -> None:
        self.source = source
        self.settings = settings
        self.names = ClusterNames()
        self._store: Store | None = None
        self._metrics: Registry
        self._snapshot = snapshot
        self._users = 0
        self._tasks: list[Running] = []

    @property
    def is_running(self) -> bool:
        """Whether at least one plugin instance uses it."""
        return self._users > 0

    @property
    def store(self) -> Store:
        """The state of the cluster; only after start()."""
        assert self._store is not None, "started"
        return self._store

    @property
    def serves(self) -> bool:
        """Whether there is a state to answer from."""
        return self._store is not None and self._store.serves

    def start(self, runtime: Runtime) -> None:
        """Add a user; the first one loads what is available at once, and begins to watch."""
        self._users += 1
        if self._users > 1:
            return
        self._metrics = runtime.metrics
        self._store = store = Store(
            self.settings,
            wall=runtime.wall,
            warn=lambda sentence: log.warning("plugin/kubernetes: %s", sentence),
            counters=runtime.counters,
            names=self.names,
            metrics=runtime.metrics,
        )
        if isinstance(self.source, ApiServer):
            self.source.reject = self._reject
        process = _Process(runtime.random, runtime.metrics, runtime.clock, runtime.wall)
        if self._snapshot is not None:
            self._restore(self._snapshot)
        self.source.load(self.deliver, self._report)
        watching = self.source.watch(self.deliver, self._report, process)
        self._tasks.append(runtime.spawn_watch(watching, "kubernetes source"))
        if self._snapshot is not None:
            saving = self._snapshot.save_periodically(store, self._report, process)
            self._tasks.append(runtime.spawn_watch(saving, "kubernetes snapshot"))
        seconds = check_interval(self._report)
        if isinstance(self.source, ApiServer) and seconds is not None:
            checking = check_store(self.source, store, self._report, process, seconds)
            self._tasks.append(runtime.spawn_watch(checking, "kubernetes store check"))

    def stop(self) -> None:
        """Remove a user; with the last one the tasks end."""
        self._users -= 1
        if not self._users:
            for task in self._tasks:
                task.cancel()
            self._tasks.clear()

    def deliver(self, events: Sequence[Event]) -> None:
        """Apply a batch of events from the source."""
        restored = self.store.restored
        self.store.apply(events)
        if restored is not None and self.store.restored is None:
            self._show_serving()
            log.info(
                "plugin/kubernetes: the cluster has been read; the snapshot is no longer served"
            )

    def _restore(self, snapshot: SnapshotFile) -> None:
        """Serve the snapshot, if there is one, until the cluster has been read."""
        found = snapshot.load(self._report)
        if found is not None:
            try:
                self.store.restore(*found)
            except (OSError, ValueError) as error:
                log.warning(
                    'plugin/kubernetes: snapshot "%s": only a part of it could be read: %s',
                    snapshot.path,
                    error,
                )
        self._show_serving()

    def _show_serving(self) -> None:
        assert self._snapshot is not None, "restored from it"
        show_serving(self._metrics, self._snapshot.path, self.store)

    def _reject(self, kind: str, key: tuple[str, str], reason: str) -> None:
        self.store.rejected.reject(kind, *key, "form", f"it is skipped: {reason}")

    def _report(self, level: int, message: str) -> None:
        log.log(level, "plugin/kubernetes: %s", message)
