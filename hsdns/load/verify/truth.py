"""The right answers at any time: the states of all Services and addresses in the questions, from the cluster.

Path: the watch of a kubernetes block (plugins/kubernetes/watch.py) -> here -> verifier.py.
Rule 1: a state is recorded when the event is applied, in the thread of the watch: only its value, which never changes.
Rule 2: the code that answers queries (cluster/answer.py) computes the right answer from the state, when an answer is
        first compared with it.
Rule 3: if questions may be added while the cluster changes, all Services are followed from the beginning: a question
        may be added after it was answered.
Rule 4: MOST_STATES states and a few more are stored, so that memory is bounded; an answer that may match a dropped one
        is not judged.  They are dropped one by one: to drop half of them at once stops the changes for a second.
Rule 5: `follow` is called for each change, in the thread of the watch, with the Service, the number of its state, the
        time, and the resourceVersion.
Rule 6: answers that do not depend on one Service or one address are not judged: names outside the cluster, those of an
        ExternalName except its CNAME, pods that are verified, and names that fall through.

The states of one subject over time:
Rule: one thread adds states and others read: a reader takes `states` once, and later changes only append to it.
"""

from __future__ import annotations

import logging
import threading
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hsdns.cluster.address import address_of
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.history import History, Noted, Packed, ServiceFacts
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.schema import POD, SVC
from hsdns.cluster.store import Store
from hsdns.cluster.value import EXTERNAL_NAME, Key, ServiceValue
from hsdns.load.questions import Question
from hsdns.load.verify.judge import Answer, answer_of
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

V = TypeVar("V")
MOST: Final = 4096  # states that are stored


class States(NamedTuple, Generic[V]):
    """Times in monotonic seconds, and the state from each on; `base` older states were dropped."""

    base: int
    since: list[float]
    values: list[V]


class Timeline(Generic[V]):
    """The states of one subject; the first one was true before all judged answers."""

    __slots__ = ("states",)

    def __init__(self, value: V) -> None:
        self.states: States[V] = States(0, [float("-inf")], [value])

    def add(self, time: float, value: V) -> None:
        """Add a state that is true from `time` on."""
        base, since, values = self.states
        if len(since) >= MOST:
            half = len(since) // 2
            self.states = base, since, values = States(base + half, since[half:], values[half:])
        values.append(value)  # before its time: readers use the number of times
        since.append(time)

    def forget(self, before: float) -> int:
        """Drop the states that had ended by a time; return how many are left."""
        base, since, values = self.states
        at = bisect_right(since, before) - 1
        if at > 0:
            self.states = States(base + at, since[at:], values[at:])
        return len(self.states.since)

    @property
    def latest(self) -> V:
        """The current state."""
        return self.states.values[-1]


log = logging.getLogger("hsdns.load")

Spans = deque[tuple[float, float]]  # begin and end times
Follow = Callable[[Key, int, float, str], None]
Subject = Key | bytes | None  # a Service, an address, or None for what never changes
_CHANGING: Final = "headless"
BEAT: Final = 0.02  # seconds
# Seconds between two turns of the watch's loop above which events may be seen late.
LATE: Final = 0.05
_MOST_SPANS: Final = 200
_REMEMBERED: Final = 50_000  # answers
MOST_STATES: Final = 200_000  # for all Services and addresses together
_SWEPT: Final = 4  # Services and addresses whose old states are dropped with each new state
_MISSING: Final = Answer(-1)


class _Asked(NamedTuple):
    """A question, the zone that it is in, and what its answer depends on; the zone is None if it is not judged."""

    question: Question
    zone: Name | None
    subject: Subject


@dataclass(eq=False)
class Truth:
    """The right answers to questions, from a kubernetes block that has started and read its cluster.

    Create it in the thread of the watch.  `clock` gives monotonic seconds; `grows`: add_question() may be called;
    `leads`: the same thread shows changes to the servers after they are seen here (churn.py).  `known` has the current
    right answers to the first questions, if the caller has computed them.
    """

    block: Kubernetes
    questions: InitVar[Sequence[Question]]
    clock: Callable[[], float]
    _: KW_ONLY
    grows: bool = False
    leads: bool = False
    known: InitVar[Sequence[Answer]] = ()

    def __post_init__(self, questions: Sequence[Question], known: Sequence[Answer]) -> None:
        block = self.block
        self._live = block.answers
        self._asked: list[_Asked] = []
        self._numbers: dict[tuple[bytes, int], int] = {}  # of added questions
        self.changes = array("d")  # when each event that affects the questions was applied
        self.changed = set[Key]()  # Services; who takes one removes it
        # Of Services and addresses: their values, and the names of addresses.
        self._timelines: dict[Key | bytes, Timeline[Any]] = {}
        self._touched: dict[bytes, float] = {}
        # When each of the newest states began, except the first state of each subject.
        self._states: deque[float] = deque()
        self._swept = self._in_turn()
        self._beaten = self.clock()
        self._stalls: Spans = deque(maxlen=_MOST_SPANS)  # the loop was blocked
        self._outages: Spans = deque(maxlen=_MOST_SPANS)  # the cluster could not be watched
        self._expected: dict[tuple[int, int], Answer | None] = {}
        self._making = threading.Lock()  # guards _scratch
        self.follow: Follow = lambda key, state, time, version: None
        # What it warns of, the source has reported.
        self._scratch = Store(block.state.settings, wall=lambda: 0.0, warn=lambda sentence: None)
        self._scratch.namespaces = block.store.namespaces
        self._scratch.pods = block.store.pods
        self._scratch.synced = True
        self._answers: ClusterAnswers = block.answers_over(self._scratch)
        if self.grows:
            for key, value in block.store.services.values.items():
                self._timelines[key] = Timeline(value)
        self._asked += map(self._read, questions)
        self._known = [
            right if self._is_determined(number) else None for number, right in enumerate(known)
        ]
        self._watch_changes()

    def add_question(self, question: Question) -> int:
        """Add a question; return its number here.  Each server of a run adds its own; these numbers are for all.

        Added questions about addresses and ServiceImports are not judged: their earlier states were not recorded.
        """
        assert self.grows, "made so"
        key = (question.name.lower, question.qtype)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._asked)
            self._asked.append(self._read(question, is_added=True))
        return number

    def _read(self, question: Question, *, is_added: bool = False) -> _Asked:
        zone, lookup = question.name.longest_of(self.block.zones), self._live.lookup
        if zone is None:
            return _Asked(question, None, None)
        if is_added and (question.qtype == RRType.PTR or lookup.is_multicluster(zone)):
            return _Asked(question, None, None)
        address = address_of(question.name) if question.qtype == RRType.PTR else None
        if address is not None:
            if address not in self._timelines:
                self._timelines[address] = Timeline(tuple(lookup.pointers(address, None)))
            return _Asked(question, zone, address)
        parsed = lookup.parse(question.name, zone)
        if parsed is None or parsed.kind != SVC or not parsed.name:
            return _Asked(question, zone, None)
        key = (parsed.namespace, parsed.name)
        if key not in self._timelines:
            # An added Service without states has never existed; the thread of the watch may be adding it.
            value = None if is_added else lookup.values(zone).get(key)
            self._timelines.setdefault(key, Timeline(value))
        return _Asked(question, zone, key)

    def by_service(self) -> dict[Key, Sequence[int]]:
        """The questions about each Service; those whose answers change with any endpoint come first."""
        found: dict[Key, list[int]] = {}
        for is_changing in (True, False):
            for number, (question, _, subject) in enumerate(self._asked):
                if isinstance(subject, tuple) and (question.group == _CHANGING) is is_changing:
                    found.setdefault(subject, []).append(number)
        return dict(found)

    def is_away(self) -> bool:
        """Whether the cluster cannot be watched now."""
        return bool(self.block.store.lost)

    def beat(self) -> None:
        """Record a turn of the watch's loop; call it every BEAT seconds."""
        now = self.clock()
        if self.is_away():
            outages = self._outages
            if outages and outages[-1][1] == self._beaten:  # it continues
                outages[-1] = (outages[-1][0], now)
            else:
                outages.append((self._beaten, now))
        if now - self._beaten > LATE:
            self._stalls.append((self._beaten, now))
        self._beaten = now

    def was_late(self, begin: float, end: float) -> bool:
        """Whether the watch may have seen an event between two times late."""
        return _overlap(self._stalls, begin, end)

    def shown(self, time: float) -> float:
        """When servers could see a state that was true from `time` on.

        With `leads`, that turn of the loop wakes the connections of watches, and the next one writes to them.
        """
        turns = 2 if self.leads else 0
        for first, last in tuple(self._stalls):
            if turns and first - BEAT <= time < last:
                time, turns = last, turns - 1
        return time

    def was_away(self, begin: float, end: float) -> bool:
        """Whether the cluster could not be watched at some time between two times."""
        return _overlap(self._outages, begin, end)

    def states(self, question: int) -> tuple[Sequence[float], int] | None:
        """The times from which each state of a question was true, and how many earlier ones were dropped.

        None if the cluster does not determine the answer.
        """
        _, zone, subject = self._asked[question]
        if subject is None:
            return None if zone is None else ((float("-inf"),), 0)
        base, since, _ = self._timelines[subject].states
        return since, base

    def expected(self, question: int, state: int) -> Answer | None:
        """The right answer to a question in a state, whose number includes dropped ones; None if unknown."""
        if state == 0 and question < len(self._known):
            return self._known[question]
        found = self._expected.get((question, state), _MISSING)
        if found is _MISSING:
            if len(self._expected) >= _REMEMBERED:
                self._expected.clear()
            with self._making:
                found = self._expected[question, state] = self._make(question, state)
        return found

    def latest(self, question: int) -> Answer | None:
        """The right answer to a question now; None if unknown."""
        found = self.states(question)
        return None if found is None else self.expected(question, found[1] + len(found[0]) - 1)

    def _watch_changes(self) -> None:
        watch, services = self.block.watch, self.block.store.services
        services.history = _Notes(self._note)
        services.history.is_open = True
        before = watch.on_delivered

        def delivered() -> None:
            self._record_pointers()
            if before is not None:
                before()

        watch.on_delivered = delivered

    def _note(self, noted: Noted) -> None:
        now, key = self.clock(), noted.service
        timeline = self._timelines.get(key)
        if timeline is None and self.grows:
            timeline = self._timelines.setdefault(key, Timeline(None))
        if timeline is not None:
            self._add(timeline, now, self.block.store.services.values.get(key))
            self.changes.append(now)
            self.changed.add(key)
            base, since, _ = timeline.states
            self.follow(key, base + len(since) - 1, now, noted.version)
        for address, _ in _addresses_of(noted.before) ^ _addresses_of(noted.after):
            if address in self._timelines:
                self._touched.setdefault(address, now)

    def _record_pointers(self) -> None:
        """Record the names of addresses that a batch of events has changed."""
        touched, self._touched = self._touched, {}
        for address, time in touched.items():
            pointers = tuple(self._live.lookup.pointers(address, None))
            timeline = self._timelines[address]
            if pointers != timeline.latest:
                self._add(timeline, time, pointers)

    def _add(self, timeline: Timeline[Any], time: float, value: object) -> None:
        """Add a state; if there are too many, drop those that had ended before the newest MOST_STATES."""
        timeline.add(time, value)
        states = self._states
        states.append(time)
        if len(states) > MOST_STATES:
            states.popleft()
            for each in islice(self._swept, _SWEPT):
                each.forget(states[0])

    def _in_turn(self) -> Iterator[Timeline[Any]]:
        """All timelines, again and again; questions may be added in the meantime."""
        while True:
            yield from list(self._timelines.values())

    def _make(self, question: int, state: int) -> Answer | None:
        (name, qtype, *_), zone, subject = self._asked[question]
        assert zone is not None, "states() says so"
        values = self._scratch.services.values
        values.clear()
        if subject is None:
            if not self._is_determined(question):
                return None
        else:
            base, _, found = self._timelines[subject].states
            if state < base:  # just dropped
                return None
            value = found[state - base]
            if isinstance(subject, bytes):
                records = [RR(name, RRType.PTR, 0, target.wire) for target in value]
                return answer_of(Rcode.NOERROR, records) if records else self._absent(zone)
            if value is not None:
                if _is_alias(value, qtype):
                    return None
                values[subject] = value
        try:
            reply = self._answers.answer_at_once(name, qtype, zone)
        except NoSuchName:
            return self._absent(zone)
        if not isinstance(reply, Reply):
            return None
        return answer_of(reply.rcode, reply.answer, reply.additional)

    def _is_determined(self, question: int) -> bool:
        """Whether the cluster determines the answer to a question, by the first state of its Service."""
        (name, qtype, *_), zone, subject = self._asked[question]
        if zone is None or isinstance(subject, bytes):
            return zone is not None
        if subject is None:
            parsed = self._live.lookup.parse(name, zone)
            return parsed is None or parsed.kind != POD or self._live.lookup.pods != "verified"
        value = self._timelines[subject].states[2][0]
        return value is None or not _is_alias(value, qtype)

    def _absent(self, zone: Name) -> Answer | None:
        return Answer(Rcode.NXDOMAIN) if self.block.tells_absence(zone) else None


class _Notes(History):
    """Passes each change on, and stores none."""

    def __init__(self, note: Callable[[Noted], None]) -> None:
        super().__init__(0)
        self._tell = note

    def note(self, noted: Noted) -> None:
        """Pass a change on; errors are logged, because the watch must continue."""
        try:
            self._tell(noted)
        except Exception:
            log.exception("the truth about %s was not noted", noted.service)


def _overlap(spans: Spans, begin: float, end: float) -> bool:
    """Whether one of the spans overlaps the time between two times; another thread may be adding spans."""
    return any(first < end and last > begin for first, last in tuple(spans))


def _addresses_of(packed: Packed) -> set[tuple[bytes, bytes]]:
    """The addresses with their labels, b"" for none."""
    if isinstance(packed, ServiceFacts):
        return {(address, b"") for address in packed.cluster_ips}
    parts = [part for part in packed if part.width]  # others have names in the place of addresses
    return {place for part in parts for place in zip(part.separate, part.own_labels, strict=True)}


def _is_alias(value: ServiceValue, qtype: int) -> bool:
    """Whether a Service's records are those of another name, which the cluster does not determine."""
    if value.kind == EXTERNAL_NAME and qtype != RRType.CNAME:
        return True
    return any(part.targets for part in value.slices)
