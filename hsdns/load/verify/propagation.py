"""How long changes take to show: the time from writing one to the first new answer and to the last old one.

Path: prober_process.py passes answers, follow.py has the changes -> here -> report.py.
Rule 1: an answer is new if it matches a state since the change, old if it matches one from before; others do not count.
Rule 2: probes sent after a later change restored the old answer do not count for this change.  A change with less than
        LEAST of usable time is omitted, regardless of the answers, and so is one without answers.
Rule 3: times run from when the change was written, or if that is unknown from when it was seen, until the reply
        arrived.  The time between the probes around it is the resolution, which is reported.
Rule 4: a change that did not show, or was still old at the end, counts as slower than any other.

The part of a report about how long changes took to show:
Rule: changes that never showed are in no histogram, and are counted separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.load.histogram import Histogram
from hsdns.load.outcome import REPLY, read_reply
from hsdns.load.questions import Question
from hsdns.load.results import EventReport, PropagationReport
from hsdns.load.schedule import SECOND
from hsdns.load.verify.follow import PROBE, PROBES, SERIES, Event, Probe
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.verifier import JUDGED, ClusterStates, answer_of
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import Query

LEAST: Final = 1.0  # seconds
SETTLED: Final = 10  # consecutive new answers of a server after which it gets no more probes
NEW, OLD, OTHER = 1, -1, 0


class Shown(NamedTuple):
    """How a change showed at a server; seconds from when it was written, None for never.

    `resolution` is the time between the probes around the first new answer.
    """

    event: Event
    at: float
    seen: float
    first_new: float | None
    last_old: float | None
    resolution: float


class _ProbeAnswer(NamedTuple):
    """An answer: whether it shows the change, and when it was requested and arrived (seconds)."""

    shows: int
    sent: float
    received: float


class Propagation:
    """The answers of servers about changes.

    `done` takes the number of each event that all servers have shown, and how many of its probes are left.
    """

    def __init__(
        self,
        truth: ClusterStates,
        queries: Sequence[Query],
        events: Sequence[Event],
        servers: int,
        slack: float,
        done: Callable[[int, int], None],
    ) -> None:
        self._truth = truth
        self._queries = queries
        self._events = events
        self._servers = servers
        self._slack = slack
        self._done = done
        self._replies: dict[int, tuple[int, bytes]] = {}
        self._answers: dict[int, Answer | None] = {}
        self._probes: dict[int, list[list[Probe]]] = {}
        self._new: dict[tuple[int, int], int] = {}  # consecutive new answers, by event and server
        self._settled: dict[int, set[int]] = {}

    def take(self, kind: bytes, content: bytes) -> None:
        """Process a message of the prober."""
        if kind == REPLY:
            number, event, reply = read_reply(content)
            self._replies[number] = event, reply
        elif kind == PROBES:
            for fields in PROBE.iter_unpack(content):
                self._take(Probe(*fields))

    def _take(self, probe: Probe) -> None:
        of_servers = self._probes.setdefault(probe.event, [[] for _ in range(self._servers)])
        of_servers[probe.server].append(probe)
        event, settled = self._events[probe.event], self._settled.setdefault(probe.event, set())
        place = probe.event, probe.server
        shows = self._shows(event, probe)
        self._new[place] = self._new.get(place, 0) + 1 if shows == NEW else 0
        if self._new[place] == SETTLED and probe.server not in settled:
            settled.add(probe.server)
            if len(settled) == self._servers:
                asked = sum(each <= probe.sent - round(event.seen * SECOND) for each in SERIES)
                self._done(event.number, len(SERIES) - asked)

    def shown(self, server: int, begin: float, end: float) -> list[Shown]:
        """How each change since `begin` showed at a server, given by its index; probes ended at `end` (seconds)."""
        found = []
        for event in self._events:
            until = min(end, self._reverted(event))
            written = event.seen if event.written is None else event.written
            if event.seen < begin or until - event.seen < LEAST:
                continue
            probes = self._probes.get(event.number, [[] for _ in range(self._servers)])[server]
            answers = [
                _ProbeAnswer(self._shows(event, each), each.sent / SECOND, each.received / SECOND)
                for each in sorted(probes, key=lambda each: each.sent)
                if each.sent / SECOND < until
            ]
            conclusive = [each for each in answers if each.shows != OTHER]
            if conclusive:
                found.append(_shown(event, written, conclusive))
        return found

    def _shows(self, event: Event, probe: Probe) -> int:
        answer = self._answer(probe.reply) if probe.flags & 15 in JUDGED else None
        states = self._truth.states(event.question)
        if answer is None or states is None:
            return OTHER
        since, base = states
        expected = self._truth.expected
        # A server may be ahead of the watch, but does not answer with states from long before either.
        if any(
            expected(event.question, each) == answer
            for each in range(event.state, base + len(since))
        ):
            return NEW
        before = range(event.state - 1, max(base, event.state - 200) - 1, -1)
        return OLD if any(expected(event.question, each) == answer for each in before) else OTHER

    def _reverted(self, event: Event) -> float:
        """When a later change restored the old answer, less the slack between server and watch; else infinite."""
        states = self._truth.states(event.question)
        if states is None:
            return float("inf")
        since, base = states
        old = self._truth.expected(event.question, event.state - 1)
        for each in range(event.state + 1, base + len(since)):
            if self._truth.expected(event.question, each) == old:
                return since[each - base] - self._slack
        return float("inf")

    def _answer(self, reply: int) -> Answer | None:
        if reply not in self._answers:
            event, content = self._replies[reply]
            try:
                found = decode_reply(b"\0\0" + content, self._queries[self._events[event].question])
            except BadReply:
                self._answers[reply] = None
            else:
                self._answers[reply] = answer_of(found.rcode, found.answer)
        return self._answers[reply]


def _shown(event: Event, written: float, answers: Sequence[_ProbeAnswer]) -> Shown:
    """How a change showed; `answers` is in the order of sending."""
    new = [each for each in answers if each.shows == NEW]
    old = [each for each in answers if each.shows == OLD]
    at, seen = written, event.seen - written
    last_old: float | None = 0.0
    if old:
        last = max(old, key=lambda each: each.received)
        is_over = any(each.sent > last.sent for each in new)
        last_old = last.received - written if is_over else None
    if not new:
        return Shown(event, at, seen, None, None, 0.0)
    first = min(new, key=lambda each: each.received)
    before = max((each.sent for each in old if each.sent < first.received), default=written)
    return Shown(event, at, seen, first.received - written, last_old, first.received - before)


def propagation_report(
    shown: Sequence[Shown], questions: Sequence[Question], followed: int, begin: float
) -> PropagationReport:
    """The report of the `shown` changes of a server, of `followed` changes in a run that began at `begin` (seconds)."""
    found = PropagationReport(followed, followed - len(shown))
    for each in shown:
        _record(found.seen_slots, max(0.0, each.seen))
        if each.event.adds:
            found.never_new += _record(found.first_new_slots, each.first_new)
        if each.event.removes:
            found.never_gone += _record(found.last_old_slots, each.last_old)
        if each.first_new is not None:
            _record(found.resolution_slots, each.resolution)
        found.events.append(_event(each, questions, begin))
    return found.finish()


def _record(histogram: Histogram, seconds: float | None) -> int:
    """Record a time; return 1 if it is None, for never."""
    if seconds is None:
        return 1
    histogram.record(round(seconds * 1e6))
    return 0


def _event(shown: Shown, questions: Sequence[Question], begin: float) -> EventReport:
    question = questions[shown.event.question]
    return EventReport(
        round(shown.at - begin, 6),
        question.name.to_text(),
        type_to_text(question.qtype),
        shown.event.adds,
        shown.event.removes,
        _ms(max(0.0, shown.seen)),
        None if shown.first_new is None else _ms(shown.first_new),
        None if shown.last_old is None else _ms(shown.last_old),
        _ms(shown.resolution),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
