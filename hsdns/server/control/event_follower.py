"""The events of a store, noted for one reader.

Path: the thread of the watch -> here -> watch.py, on the loop.
Rule 1: begin() runs in the thread of the watch, so that the state that it returns is exactly the one before the first
        event that is noted.
Rule 2: to note a batch is to keep a reference to it.  Memory is bounded: of more than MOST events that the reader has
        not taken, the rest are counted as lost, until it begins again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.cluster.objects import Event
from hsdns.cluster.store import Store
from hsdns.cluster.whole_state import WholeState

MOST: Final = 8192  # events


class EventFollower:
    """What has happened in a store since begin(); `clock` gives monotonic seconds, `lost` is a number of events."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store = store
        self.lost = 0
        self._clock = clock
        self._noted: deque[tuple[float, Sequence[Event]]] = deque()
        self._count = 0  # of events that were noted; the thread of the watch alone changes it
        self._taken = 0
        self._is_followed = False
        self._is_over = False

    def begin(self) -> tuple[float, WholeState]:
        """The time, and the state from which on events are noted; again after some were lost."""
        self._noted.clear()
        self._count = self._taken = self.lost = 0
        if not self._is_followed:
            self._is_followed = True
            self.store.follow(self._note)
        return self._clock(), WholeState.of(self.store)

    def end(self) -> None:
        """Note no more; from any thread."""
        self._is_over = True
        self._noted.clear()

    def take(self) -> tuple[float, Sequence[Event]] | None:
        """The next batch, with its time; None if there is none."""
        if not self._noted:
            return None
        found = self._noted.popleft()
        self._taken += len(found[1])
        return found

    def _note(self, events: Sequence[Event]) -> bool:
        if self._is_over:
            return False
        if self.lost or self._count - self._taken + len(events) > MOST:
            self.lost += len(events)
        elif events:
            self._count += len(events)
            self._noted.append((self._clock(), events))
        return True
