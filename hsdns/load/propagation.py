"""How long changes take to show: the time from writing one to the first new answer and to the last old one.

Path: prober_process.py passes answers, follower.py has the changes -> here -> report.py.
Rule 1: an answer is new if it matches a state since the change, old if it matches one from before; others do not count.
Rule 2: probes sent after a later change restored the old answer do not count for this change.  A change with less than
        LEAST of usable time is omitted, regardless of the answers, and so is one without answers.
Rule 3: times run from when the change was written, or if that is unknown from when it was seen, until the reply
        arrived.  The time between the probes around it is the resolution, which is reported.
Rule 4: a change that did not show, or was still old at the end, counts as slower than any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.load.follower import Event
from hsdns.load.judge import Answer
from hsdns.load.outcome import REPLY, read_reply
from hsdns.load.probing import PROBES, SERIES, Probe, unpack_probes
from hsdns.load.said import answer_of
from hsdns.load.schedule import SECOND
from hsdns.load.verifier import JUDGED, SaysTruth
from hsdns.wire.decode import BadReply, decode_reply
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


class _Seen(NamedTuple):
    """An answer: whether it shows the change, and when it was requested and arrived (seconds)."""

    says: int
    sent: float
    received: float


class Propagation:
    """The answers of servers about changes.

    `done` takes the number of each event that all servers have shown, and how many of its probes are left.
    """

    def __init__(
        self,
        truth: SaysTruth,
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
            for probe in unpack_probes(content):
                self._take(probe)

    def _take(self, probe: Probe) -> None:
        of_servers = self._probes.setdefault(probe.event, [[] for _ in range(self._servers)])
        of_servers[probe.server].append(probe)
        event, settled = self._events[probe.event], self._settled.setdefault(probe.event, set())
        place = probe.event, probe.server
        says = self._says(event, probe)
        self._new[place] = self._new.get(place, 0) + 1 if says == NEW else 0
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
            said = [
                _Seen(self._says(event, each), each.sent / SECOND, each.received / SECOND)
                for each in sorted(probes, key=lambda each: each.sent)
                if each.sent / SECOND < until
            ]
            telling = [each for each in said if each.says != OTHER]
            if telling:
                found.append(_shown(event, written, telling))
        return found

    def _says(self, event: Event, probe: Probe) -> int:
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


def _shown(event: Event, written: float, said: Sequence[_Seen]) -> Shown:
    """How a change showed; `said` is in the order of sending."""
    new = [each for each in said if each.says == NEW]
    old = [each for each in said if each.says == OLD]
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
