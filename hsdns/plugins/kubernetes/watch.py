"""The watch of one cluster: its source, its states, and the tasks that keep them up to date.

A state is what the blocks with the same settings share: a store, the names for the answer table, and a snapshot.

Path: the kubernetes plugin creates a watch, shares another block's, or takes over the watch of the instance before a
reload; source -> ClusterState.apply -> Store.apply; the plugin answers from the store.
Rule 1: all blocks with the same API server share a watch, so that no client sees them go back in time.  Blocks with the
        same settings share a state; other states get each event in the same call.
Rule 2: all plugin instances with the same configuration share a watch.  The first start() begins it, the last stop()
        ends it; reloads in between neither end it nor list anything again.
Rule 3: its tasks run in the watch thread (server/watch_loop.py), the only one that writes the stores.  What is there
        before that (a snapshot, files) is loaded first; at a reload in a thread, since the main loop still answers.
Rule 4: it keeps only the parts of its first runtime that belong to the process: clocks, randomness, metrics, counters.
Rule 5: a snapshot is not restored at a reload while the instance before it follows the same cluster: the file is older
        than what that one serves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from hsdns.cluster.history import Replaced
from hsdns.cluster.objects import Event
from hsdns.cluster.source import Report, Source
from hsdns.cluster.store import Store, StoreSettings
from hsdns.fastpath import ClusterNames
from hsdns.metrics import Registry
from hsdns.plugin import Running, Runtime
from hsdns.sources.api_server import ApiServer

if TYPE_CHECKING:
    from hsdns.sources.snapshot_file import SnapshotFile

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
        self.snapshot.show_serving(self._metrics, self.store)


@dataclass
class _Process:
    """The parts of a runtime that belong to the process, not to a configuration (source.Surroundings)."""

    random: Random
    metrics: Registry
    clock: Callable[[], float]
    wall: Callable[[], float]


class ClusterWatch:
    """The watch of a cluster, which begins its states when it is first started.

    `words` are the configurations of the blocks that share it, in the order of the Corefile.  `on_delivered`, if it is
    set, is called after each batch, in the thread of the watch.
    With `reads_only` it does not save snapshots, for a command that only reads the names.
    """

    def __init__(self, source: Source, state: ClusterState, words: tuple[object, ...] = ()) -> None:
        self.source = source
        self.states = [state]
        self.words = [words]
        self.on_delivered: Callable[[], None] | None = None
        self.reads_only = False
        self._users = 0
        self._tasks: list[Running] = []

    @property
    def is_running(self) -> bool:
        """Whether at least one plugin instance uses it."""
        return self._users > 0

    def join(self, other: ClusterWatch) -> ClusterState | None:
        """Return the state for another block if it has the same API server, else None.  Neither may be started."""
        (state,) = other.states
        if not isinstance(self.source, ApiServer) or not isinstance(other.source, ApiServer):
            return None
        joint = self.source.joined(other.source)
        if joint is None:
            return None
        self.source = joint
        self.words += other.words
        for known in self.states:
            if known.is_like(state):
                return known
        self.states.append(state)
        return state

    async def start(self, runtime: Runtime) -> None:
        """Add a user; the first one loads the available objects, and starts the watch."""
        self._users += 1
        if self._users > 1:
            return
        await runtime.load(partial(self._load, runtime))
        source = self.source
        process = _Process(runtime.random, runtime.metrics, runtime.clock, runtime.wall)
        watching = source.watch(self.deliver, self._report, process)
        self._tasks.append(runtime.spawn_watch(watching, "kubernetes source"))
        if self.reads_only:
            return
        for state in self.states:
            if state.snapshot is not None:
                saving = state.snapshot.save_periodically(state.store, self._report, process)
                self._tasks.append(runtime.spawn_watch(saving, "kubernetes snapshot"))

    def _load(self, runtime: Runtime) -> None:
        for state in self.states:
            state.begin(runtime, self._report)
        if isinstance(self.source, ApiServer):
            self.source.reject = self._reject
            self.source.on_lost = self._lose
        self.source.load(self.deliver, self._report)

    def stop(self) -> None:
        """Remove a user; after the last one the tasks end."""
        self._users -= 1
        if not self._users:
            for task in self._tasks:
                task.cancel()
            self._tasks.clear()

    def deliver(self, events: Sequence[Event]) -> None:
        """Apply a batch of events from the source."""
        for state in self.states:
            state.apply(events)
        if self.on_delivered is not None:
            self.on_delivered()

    def _lose(self, since: str) -> None:
        for state in self.states:
            state.store.lose(since)

    def _reject(self, kind: str, key: tuple[str, str], reason: str) -> None:
        rejected = self.states[0].store.rejected
        rejected.reject(kind, *key, "form", f"it is skipped: {reason}")

    def _report(self, level: int, message: str) -> None:
        log.log(level, "plugin/kubernetes: %s", message)
