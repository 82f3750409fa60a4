"""Records the events of a store for one reader.

Path: the watch thread -> here -> watch.py, on the loop.
Rule 1: begin() runs in the watch thread, so that the state that it returns is exactly the one before the first recorded
        event.
Rule 2: recording a batch only keeps a reference to it.  Memory is bounded: once MOST events wait for the reader,
        further ones are counted as lost until the reader calls begin() again.
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
    """The events of a store since begin(); `clock` gives monotonic seconds, `lost` is a number of events."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store = store
        self.lost = 0
        self._clock = clock
        self._noted: deque[tuple[float, Sequence[Event]]] = deque()
        self._count = 0  # of recorded events; only the watch thread changes it
        self._taken = 0
        self._is_followed = False
        self._is_over = False

    def begin(self) -> tuple[float, WholeState]:
        """Start recording, again if events were lost; return the time and the state before the first event."""
        self._noted.clear()
        self._count = self._taken = self.lost = 0
        if not self._is_followed:
            self._is_followed = True
            self.store.follow(self._note)
        return self._clock(), WholeState.of(self.store)

    def end(self) -> None:
        """Stop recording; from any thread."""
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
