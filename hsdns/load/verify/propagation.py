"""How long changes take to show: the time from writing one to the first new answer and to the last old one.

Path: prober_process.py passes answers, follow.py has the changes -> here -> report.py.
Rule 1: an answer is new if it matches a state since the change, old if it matches one from before; others do not count.
Rule 2: probes sent after a later change restored the old answer do not count for this change.  A change with less than
        LEAST of usable time is omitted, regardless of the answers, and so is one without answers.
Rule 3: times run from when the change was written, or if that is unknown from when it was seen, until the reply
        arrived.  The time between the probes around it is the resolution, which is reported.
Rule 4: a change that did not show, or was still old at the end, counts as slower than any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hsdns.load.outcome import REPLY, read_reply
from hsdns.load.results import EventReport, PropagationReport
from hsdns.load.schedule import SECOND
from hsdns.load.verify.follow import PROBE, PROBES, SERIES, Event, Probe
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.message import read
from hsdns.load.verify.truth import Truth
from hsdns.load.verify.verifier import JUDGED
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import Query

LEAST: Final = 1.0  # seconds
SETTLED: Final = 10  # consecutive new answers of a server after which it gets no more probes
NEW, OLD, OTHER = 1, -1, 0


@dataclass
class Propagation:
    """The answers of servers about changes.

    `done` takes the number of each event that all servers have shown, and how many of its probes are left.
    """

    truth: Truth
    queries: Sequence[Query]
    events: Sequence[Event]
    servers: int
    slack: float
    done: Callable[[int, int], None]
    # By number: the answers; by event and server: the probes, and how many of the last ones are new.
    _answers: dict[int, Answer | None] = field(default_factory=dict)
    _probes: dict[tuple[int, int], list[Probe]] = field(default_factory=lambda: defaultdict(list))
    _new: Counter[tuple[int, int]] = field(default_factory=Counter)
    _settled: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def take(self, kind: bytes, content: bytes) -> None:
        """Process a message of the prober."""
        if kind == REPLY:
            number, event, reply = read_reply(content)
            query = self.queries[self.events[event].question]
            reading = read(reply, query)
            self._answers[number] = reading.answer if reading and not reading.field else None
        elif kind == PROBES:
            for fields in PROBE.iter_unpack(content):
                self._take(Probe(*fields))

    def _take(self, probe: Probe) -> None:
        place, event = (probe.event, probe.server), self.events[probe.event]
        settled = self._settled[probe.event]
        self._probes[place].append(probe)
        self._new[place] = self._new[place] + 1 if self._shows(event, probe) == NEW else 0
        if self._new[place] == SETTLED and probe.server not in settled:
            settled.add(probe.server)
            if len(settled) == self.servers:
                asked = sum(each <= probe.sent - round(event.seen * SECOND) for each in SERIES)
                self.done(event.number, len(SERIES) - asked)

    def report(self, server: int, begin: float, end: float) -> PropagationReport:
        """How the changes in a run (from begin to end in seconds) showed at a server, given by its index."""
        followed = [each for each in self.events if begin <= each.seen <= end]
        found = (self._shown(each, server, begin, end) for each in followed)
        return PropagationReport.of([each for each in found if each is not None], len(followed))

    def _shown(self, event: Event, server: int, begin: float, end: float) -> EventReport | None:
        """How a change showed; None if that is not known."""
        until = min(end, self._reverted(event))
        if until - event.seen < LEAST:
            return None
        usable = [each for each in self._probes[event.number, server] if each.sent / SECOND < until]
        new = [each for each in usable if self._shows(event, each) == NEW]
        old = [each for each in usable if self._shows(event, each) == OLD]
        if not new and not old:
            return None
        written = round((event.seen if event.written is None else event.written) * SECOND)
        first_new: int | None = None
        last_old: int | None = written
        resolution = 0
        if old:
            last = max(old, key=lambda each: each.received)
            last_old = last.received if any(each.sent > last.sent for each in new) else None
        if new:
            first_new = min(each.received for each in new)
            before = max((each.sent for each in old if each.sent < first_new), default=written)
            resolution = first_new - before
        query = self.queries[event.question]
        return EventReport(
            round(written / SECOND - begin, 6),
            query.qname.to_text(),
            type_to_text(query.qtype),
            event.adds,
            event.removes,
            _ms(max(0, round(event.seen * SECOND) - written)),
            None if first_new is None else _ms(first_new - written),
            None if last_old is None else _ms(last_old - written),
            _ms(resolution),
        )

    def _shows(self, event: Event, probe: Probe) -> int:
        answer = self._answers[probe.reply] if probe.flags & 15 in JUDGED else None
        states = self.truth.states(event.question)
        if answer is None or states is None:
            return OTHER
        since, base = states
        # A server may be ahead of the watch, but does not answer with states from long before either.
        after = range(event.state, base + len(since))
        before = range(event.state - 1, max(base, event.state - 200) - 1, -1)
        for how, numbers in ((NEW, after), (OLD, before)):
            if any(answer.says(self.truth.expected(event.question, each)) for each in numbers):
                return how
        return OTHER

    def _reverted(self, event: Event) -> float:
        """When a later change restored the old answer, less the slack between server and watch; else infinite."""
        states = self.truth.states(event.question)
        if states is None:
            return float("inf")
        since, base = states
        old = self.truth.expected(event.question, event.state - 1)
        for each in range(event.state + 1, base + len(since)):
            if self.truth.expected(event.question, each) == old:
                return since[each - base] - self.slack
        return float("inf")


def _ms(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 3)
