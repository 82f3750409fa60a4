"""The watch of one cluster: its source, its states, and the tasks that keep them up to date.

Path: the kubernetes plugin creates a watch, shares another block's, or takes over the watch of the instance before a
reload; source -> ClusterState.apply.
Rule 1: all blocks with the same API server share a watch, so that no client sees them go back in time.  Blocks with the
        same settings share a state; other states get each event in the same call.
Rule 2: all plugin instances with the same configuration share a watch.  The first start() begins it, the last stop()
        ends it; reloads in between neither end it nor list anything again.
Rule 3: its tasks run in the watch thread (server/watch_loop.py), the only one that writes the stores.  What is there
        before that (a snapshot, files) is loaded first; at a reload in a thread, since the main loop still answers.
Rule 4: it keeps only the parts of its first runtime that belong to the process: clocks, randomness, metrics, counters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from hsdns.cluster.objects import Event
from hsdns.cluster.source import Source
from hsdns.metrics import Registry
from hsdns.plugin import Running, Runtime
from hsdns.plugins.kubernetes.state import ClusterState
from hsdns.sources.api_server import ApiServer

log = logging.getLogger("hsdns.plugin.kubernetes")


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
