"""The state of a cluster for the blocks with the same settings: store, names for the answer table, snapshot.

Path: watch.py -> here -> Store.apply; the kubernetes plugin answers from the store.
Rule: a snapshot is not restored at a reload while the instance before it follows the same cluster: the file is older
      than what that one serves.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hsdns.cluster.objects import Event
from hsdns.cluster.replaced import Replaced
from hsdns.cluster.source import Report
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import ClusterNames
from hsdns.metrics import Registry
from hsdns.plugin import Runtime
from hsdns.sources.snapshot_file import SnapshotFile, show_serving

log = logging.getLogger("hsdns.plugin.kubernetes")


class ClusterState:
    """A store that begin() creates, from the `snapshot` if there is one; `replaced` has the replaced values.

    With `follows_live` it begins empty.
    """

    def __init__(self, settings: StoreSettings, snapshot: SnapshotFile | None = None) -> None:
        self.settings = settings
        self.snapshot = snapshot
        self.follows_live = False
        self.names = ClusterNames()
        self.replaced = Replaced()
        self._store: Store | None = None
        self._metrics: Registry

    @property
    def store(self) -> Store:
        """The state of the cluster; only after begin()."""
        assert self._store is not None, "begun"
        return self._store

    @property
    def serves(self) -> bool:
        """Whether there is a state to answer from."""
        return self._store is not None and self._store.serves

    @property
    def is_live(self) -> bool:
        """Whether it has the current state of the cluster."""
        return self._store is not None and self._store.synced and not self._store.lost

    def is_like(self, other: ClusterState) -> bool:
        """Whether both have the same settings, so that one state is enough."""
        paths = [None if each.snapshot is None else each.snapshot.path for each in (self, other)]
        return self.settings == other.settings and paths[0] == paths[1]

    def begin(self, runtime: Runtime, report: Report) -> None:
        """Create the store."""
        self._metrics = runtime.metrics
        self.replaced.clock = runtime.clock
        self._store = Store(
            self.settings,
            wall=runtime.wall,
            warn=lambda sentence: report(logging.WARNING, sentence),
            counters=runtime.counters,
            names=self.names,
            metrics=runtime.metrics,
            replaced=self.replaced,
        )
        if self.snapshot is not None:
            self._restore(self.snapshot, report)

    def apply(self, events: Sequence[Event]) -> None:
        """Apply a batch of events."""
        store = self.store
        restored = store.restored
        store.apply(events)
        if restored is not None and store.restored is None:
            self._show_serving()
            log.info(
                "plugin/kubernetes: the cluster has been read; the snapshot is no longer served"
            )

    def _restore(self, snapshot: SnapshotFile, report: Report) -> None:
        """Serve the snapshot, if there is one, until the cluster has been read."""
        found = None if self.follows_live else snapshot.load(report)
        if found is not None:
            try:
                self.store.restore(*found)
            except (OSError, ValueError) as error:
                report(
                    logging.WARNING,
                    f'snapshot "{snapshot.path}": only a part of it could be read: {error}',
                )
        self._show_serving()

    def _show_serving(self) -> None:
        assert self.snapshot is not None, "restored from it"
        show_serving(self._metrics, self.snapshot.path, self.store)
