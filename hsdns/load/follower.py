"""Selects the changes of the cluster to follow with separate questions (probes), and these questions.

Path: truth.py reports each change, churn.py when it was written -> here -> prober_process.py sends the probes;
propagation.py reads `events`.
Rule 1: a change is followed if it changes the answer to one of the run's questions, and if enough probes are left:
        `rate` per second, accumulated for up to a second.  Which changes are omitted does not depend on any answer.
Rule 2: a change that all servers have shown returns its remaining probes.
Rule 3: everything here except done() runs in the thread of the cluster's watch.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from hsdns.cluster.value import Key
from hsdns.load.judge import Answer
from hsdns.load.probing import SERIES

MOST_EVENTS: Final = 50_000  # per run
_MOST_WRITES: Final = 10_000  # pending ones
_TRIED: Final = 8  # questions of a Service that are checked


class Event:
    """A change of a Service: from `state` on a question has another answer; times in monotonic seconds.

    `written` is None while it is unknown.  `adds`, `removes`: whether records are new, and whether records are gone.
    """

    __slots__ = ("adds", "key", "number", "question", "removes", "seen", "state", "written")

    def __init__(
        self,
        number: int,
        key: Key,
        question: int,
        state: int,
        seen: float,
        before: Answer,
        after: Answer,
    ) -> None:
        self.number = number
        self.key = key
        self.question = question
        self.state = state
        self.seen = seen
        self.written: float | None = None
        self.adds = bool(after.records - before.records) or after.rcode < before.rcode
        self.removes = bool(before.records - after.records) or after.rcode > before.rcode


class SaysAnswers(Protocol):
    """The part of truth.Truth that gives right answers."""

    def expected(self, question: int, state: int) -> Answer | None:
        """The right answer to a question in a state."""


class Follower:
    """Follows changes with at most `rate` probes per second; `ask` starts one, or returns False."""

    def __init__(
        self,
        truth: SaysAnswers,
        by_service: Mapping[Key, Sequence[int]],
        rate: float,
        ask: Callable[[Event], bool],
        clock: Callable[[], float],
    ) -> None:
        self.events: list[Event] = []
        self._truth = truth
        self._by_service = by_service
        self._rate = rate
        self._ask = ask
        self._clock = clock
        self._left = self._most = max(rate, len(SERIES))
        self._filled = clock()
        self._back: deque[int] = deque()  # probes returned from another thread
        self._unwritten: dict[str, Event] = {}  # by resourceVersion
        self._writes: OrderedDict[str, float] = OrderedDict()

    def changed(self, key: Key, state: int, seen: float, version: str) -> None:
        """Record that a Service has a new state, since a resourceVersion of one of its objects was seen."""
        if key not in self._by_service or not self._has_probes():
            return
        truth = self._truth
        for question in self._by_service[key][:_TRIED]:
            before, after = truth.expected(question, state - 1), truth.expected(question, state)
            if before is not None and after is not None and before != after:
                break
        else:
            return
        event = Event(len(self.events), key, question, state, seen, before, after)
        event.written = self._writes.pop(version, None)
        self.events.append(event)
        if not self._ask(event):
            self.events.pop()
            return
        self._left -= len(SERIES)
        if event.written is None:
            self._unwritten[version] = event

    def written(self, version: str, time: float) -> None:
        """Record when a resourceVersion was written; it may have been seen already, or not yet."""
        event = self._unwritten.pop(version, None)
        if event is not None:
            event.written = time
            return
        self._writes[version] = time
        if len(self._writes) > _MOST_WRITES:
            self._writes.popitem(last=False)

    def done(self, probes: int) -> None:
        """Record that a change has been followed to its end, with `probes` left."""
        self._back.append(probes)

    def _has_probes(self) -> bool:
        now = self._clock()
        while self._back:
            self._left += self._back.popleft()
        self._left = min(self._most, self._left + (now - self._filled) * self._rate)
        self._filled = now
        return self._left > len(SERIES) - 0.001 and len(self.events) < MOST_EVENTS
