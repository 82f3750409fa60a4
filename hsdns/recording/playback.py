"""Determines which changes of a replay are due.

Path: sources/replay.py, which has the clock -> here -> reader.py.
Rule 1: `now` is monotonic seconds; a place in the recording is in seconds since its start.
Rule 2: a change is an event, or a whole state.  Of a state, only the differences from the previous one are delivered.
Rule 3: of a truncated first state, the existing objects are delivered; a later truncated state is not delivered at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from hsdns.cluster.objects import Deleted, Event, Identity, Object, Synced, Upserted, identity, stub
from hsdns.recording.entry import ObjectEvent, RecordedObject, State, to_event
from hsdns.recording.reader import Recording

BATCH: Final = 512  # changes that are delivered together, if many are due


class Change(NamedTuple):
    """An event or a state of a recording; each object of a state is an event."""

    at: float
    events: list[Event]
    is_state: bool = False
    serves: bool = True


class Playback:
    """A recording that is replayed at a speed: 2 is twice as fast, 0 does not wait.

    `objects` are the cluster's objects at the current place, `applied` is the number of changes after the first state.
    """

    def __init__(
        self, recording: Recording, *, speed: float = 1.0, is_paused: bool = False
    ) -> None:
        self.recording = recording
        self.speed = speed
        self.is_paused = is_paused
        self.objects: dict[Identity, Object] = {}
        self._of_states: set[Identity] = set()  # of those that no event has brought since
        self.applied = 0
        self._place = 0.0
        self._since = 0.0  # when it was there, in monotonic seconds
        self._changes = _read(recording)
        self._next: Change | None = None
        self._is_over = False

    def begin(self, now: float) -> list[Event]:
        """Return the first state, and start the time of the recording."""
        first = self._peek()
        self._since = now
        if first is None or not first.is_state:
            return []
        self._place, self.applied = first.at, -1
        return self._take()

    def resume(self, now: float) -> None:
        """Restart the time of the recording from now."""
        self._since = now

    def is_reduced(self, found: Object) -> bool:
        """Whether an object has only the fields of the server's store, not all fields of the source."""
        return identity(found) in self._of_states

    def close(self) -> None:
        """Close the file; nothing further is applied."""
        self.recording.close()
        self._changes = iter(())
        self._next, self._is_over = None, True

    @property
    def is_over(self) -> bool:
        """Whether all changes were applied."""
        return self._peek() is None

    def place(self, now: float) -> float:
        """The current place; at speed 0, the place of the last change."""
        if self.is_paused or self.speed == 0 or self.is_over:
            return self._place
        return self._place + (now - self._since) * self.speed

    def wait(self, now: float) -> float:
        """Seconds until the next change is due; infinite while it is paused, and at the end."""
        following = self._peek()
        if following is None or self.is_paused:
            return inf
        if self.speed == 0:
            return 0.0
        return max(0.0, self._since + (following.at - self._place) / self.speed - now)

    def due(self, now: float) -> list[Event]:
        """The events of the changes that are due, of at most BATCH changes."""
        found: list[Event] = []
        for _ in range(BATCH):
            if self.wait(now) > 0:
                break
            following = self._peek()
            if following is None or (following.is_state and found):
                break
            at = following.at if self.speed == 0 else self.place(now)
            found += self._take()
            self._place, self._since = max(at, following.at), now
        return found

    def pause(self, now: float) -> None:
        """Pause at the current place."""
        self._place, self._since, self.is_paused = self.place(now), now, True

    def run(self, now: float) -> None:
        """Continue from the current place."""
        self._place, self._since, self.is_paused = self.place(now), now, False

    def set_speed(self, speed: float, now: float) -> None:
        """Change the speed; a paused replay stays paused."""
        self._place, self._since, self.speed = self.place(now), now, speed

    def step(self, count: int, now: float) -> list[Event]:
        """Pause, and apply the next changes, whenever they are due."""
        self.pause(now)
        return self._advance(count, inf, now)

    def go_to(self, place: float, now: float) -> list[Event]:
        """Apply all changes up to a place at once; infinity: up to the end."""
        found = self._advance(None, place, now)
        if place != inf:
            self._place = max(self._place, place)
        return found

    def _advance(self, count: int | None, place: float, now: float) -> list[Event]:
        found: list[Event] = []
        while (
            (count is None or count > 0) and (following := self._peek()) and following.at <= place
        ):
            count = None if count is None else count - 1
            found += self._take()
            self._place, self._since = max(self._place, following.at), now
        return found

    def _peek(self) -> Change | None:
        if self._next is None and not self._is_over:
            self._next = next(self._changes, None)
            self._is_over = self._next is None
        return self._next

    def _take(self) -> list[Event]:
        """Apply the next change; return its events."""
        change, self._next = self._next, None
        assert change is not None, "peeked"
        events = self._difference(change) if change.is_state else change.events
        for event in events:
            if isinstance(event, Synced):
                continue
            key = identity(event.object)
            self._of_states.discard(key)
            if isinstance(event, Deleted):
                self.objects.pop(key, None)
                continue
            self.objects[key] = event.object
            if change.is_state:
                self._of_states.add(key)
        self.applied += 1
        return events

    def _difference(self, change: Change) -> list[Event]:
        found: dict[Identity, list[Upserted]] = {}  # several of one object, to be applied in order
        for event in change.events:
            if isinstance(event, Upserted):
                found.setdefault(identity(event.object), []).append(event)
        gone = [Deleted(stub(key)) for key in self.objects if key not in found]
        changed = [
            each
            for key, events in found.items()
            if self.objects.get(key) != events[-1].object
            for each in events
        ]
        return [*gone, *changed, *([Synced()] if change.serves else [])]


def _read(recording: Recording) -> Iterator[Change]:
    """The changes; an object that cannot be read ends them, and `problem` of the recording says so."""
    state: list[Event] = []
    is_first = True
    try:
        for entry in recording.without_queries():
            if isinstance(entry, RecordedObject):
                state.append(to_event(entry))
            elif isinstance(entry, State):
                yield Change(entry.at, state, is_state=True, serves=entry.serves)
                state, is_first = [], False
            elif isinstance(entry, ObjectEvent):
                yield Change(entry.at, [to_event(entry)])
    except ValueError as error:
        recording.problem = f"{recording.path} is broken at line {recording.line}: {error}"
    if is_first and state:
        yield Change(0.0, state, is_state=True)
