"""The values that changes have replaced in a store, to read it as it was at an earlier time.

Path: services.py, pods.py and store.py record what they are about to replace -> here ->
earlier.py.
Rule 1: while nothing needs an earlier state, nothing is recorded, and a change costs one check of `is_kept`.
Rule 2: values never change, so the record is the value itself: the cost of an earlier state is what has changed since.
Rule 3: all changes of one event have one time.  A state at a time includes the changes at and before that time.
Rule 4: one thread records, before it replaces the value; readers in other threads read the newest value first.
Rule 5: only what a need can ask for is kept: one value of a key for each fixed time, all values in a moving window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Final, NamedTuple

Table = str
Place = tuple[Table, Hashable]
Noted = tuple[tuple[float, Any], ...]  # times of changes in order, each with the previous value

SERVICES: Final[Table] = "services"
IMPORTS: Final[Table] = "imports"
NAMESPACES: Final[Table] = "namespaces"
CLUSTER_IPS: Final[Table] = "cluster IPs"
ENDPOINT_IPS: Final[Table] = "endpoint IPs"
EXTERNAL_IPS: Final[Table] = "external IPs"
PODS: Final[Table] = "pods"
TERMINATING: Final[Table] = "terminating pods"
SERIALS: Final[Table] = "serials"
OWN_SERIAL, SHARED_SERIAL, EXTERNAL_SERIAL = "own", "shared", "external"  # keys in it


class Need(NamedTuple):
    """The state at a time, in monotonic seconds; with `window`, also those of the last `window` seconds since then."""

    since: float
    window: float = 0.0

    def has(self, began: float, ended: float, now: float) -> bool:
        """Whether it may ask for a state that was valid from one time until another."""
        if self.window:
            return ended > max(self.since, now - self.window)
        return began <= self.since < ended


class Replaced:
    """The replaced values of a store; `clock` gives monotonic seconds, `latest` is the time of the last change."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = lambda: 0.0
        self.is_kept = False
        self.latest = -inf
        self._now = 0.0
        self._is_open = False
        self._needs: dict[int, tuple[Need, ...]] = {}
        self._all: tuple[Need, ...] = ()
        self._noted: dict[Place, Noted] = {}
        self._recent: deque[tuple[float, Place]] = deque()
        self._is_to_trim = False

    def __len__(self) -> int:
        """The number of values kept."""
        return sum(map(len, self._noted.copy().values()))

    def keep(self, holder: object, needs: Sequence[Need]) -> None:
        """From now on, keep what a holder needs, in place of what it needed before; callable from any thread."""
        others = {key: each for key, each in self._needs.items() if key != id(holder)}
        self._needs = {**others, id(holder): tuple(needs)} if needs else others
        self._all = tuple(each for found in self._needs.values() for each in found)
        self._is_to_trim = True
        if not self._all:
            self._noted, self._recent = {}, deque()
        self.is_kept = bool(self._all) and self._is_open

    def open(self) -> None:
        """Begin with the current state: no earlier one is needed."""
        self._is_open = True
        self.is_kept = bool(self._all)

    def begin(self) -> None:
        """Set the time of an event, before it is applied."""
        if self.is_kept:
            self._now = self.clock()

    def note(self, table: Table, key: Hashable, before: object) -> None:
        """Record the value of a key that is about to be replaced, None for no value; called only while `is_kept`."""
        noted, now, place = self._noted, self._now, (table, key)
        self.latest = now
        if self._is_to_trim:
            self._is_to_trim = False
            for each in [*noted]:
                self._trim(each)
        known = noted.get(place, ())
        began = known[-1][0] if known else -inf
        if began == now or not any(need.has(began, now, now) for need in self._all):
            return
        noted[place] = (*known, (now, before))
        window = max((need.window for need in self._all), default=0.0)
        if window:
            recent = self._recent  # keep() may have replaced it in the meantime
            recent.append((now, place))
            while recent and recent[0][0] <= now - window:
                self._trim(recent.popleft()[1])

    def at(self, table: Table, key: Hashable, time: float, newest: Any) -> Any:
        """The value of a key at a time; `newest` is the newest one, read before this call."""
        for changed, before in self._noted.get((table, key), ()):
            if changed > time:
                return before
        return newest

    def keys(self, table: Table) -> list[Any]:
        """The keys of a table that have values here."""
        return [key for found, key in self._noted.copy() if found == table]

    def first_after(self, time: float) -> float | None:
        """The time of the first change after a time, None if there is none."""
        if self.latest <= time:
            return None
        every = self._noted.copy().values()
        found = (changed for noted in every for changed, _ in noted if changed > time)
        return min(found, default=None)

    def _trim(self, place: Place) -> None:
        """Drop the values of a key that no need can ask for any more."""
        noted = self._noted.get(place, ())
        times = [-inf, *(changed for changed, _ in noted)]
        left = tuple(
            each
            for each, (began, ended) in zip(noted, pairwise(times), strict=True)
            if any(need.has(began, ended, self._now) for need in self._all)
        )
        if left:
            self._noted[place] = left
        else:
            self._noted.pop(place, None)
