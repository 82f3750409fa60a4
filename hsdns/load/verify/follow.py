"""Selects the changes of the cluster to follow with separate questions (probes), and these questions.

Path: truth.py reports each change, cluster/churn.py when it was written -> here -> prober_process.py sends the probes;
propagation.py reads `events`.
Rule 1: a change is followed if it changes the answer to one of the run's questions, and if enough probes are left:
        `rate` per second, accumulated for up to a second.  Which changes are omitted does not depend on any answer.
Rule 2: a change that all servers have shown returns its remaining probes.
Rule 3: everything here except done() runs in the thread of the cluster's watch.

Queries servers repeatedly after each change of the cluster, for the first new answer and the last old one:
Rule 1: the times of the probes of a change are fixed when it is seen (SERIES), regardless of the answers; they are the
        same for all servers.
Rule 2: a series ends early only on the command that all servers have shown the change.
Rule 3: a server is queried from several ports in turn, so that all servers behind one address are reached.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from hsdns.cluster.value import Key
from hsdns.load.outcome import frame, reply_frame
from hsdns.load.send.loop import LONGEST, Loop, Query, Transport
from hsdns.load.verify.judge import Answer

_SECOND: Final = 1_000_000_000
_STEP, _STEPS, _GROWTH, _LONGEST = 0.001, 10, 1.25, 60.0


def _series() -> tuple[int, ...]:
    """Every millisecond for ten, then at intervals that grow by a quarter, for a minute; in nanoseconds."""
    found = [number * _STEP for number in range(_STEPS + 1)]
    while found[-1] < _LONGEST:
        found.append(found[-1] * _GROWTH)
    return tuple(round(each * _SECOND) for each in found)


SERIES: Final = _series()
PORTS: Final = 4  # source ports for each server
PROBES: Final = b"p"
PROBE: Final = Struct("=IIIIqq")  # the fields of a Probe
TIMEOUT: Final = 120 * _SECOND  # of a probe; later replies are ignored
# The fields of a Command: few enough octets for a pipe to take them whole.
COMMAND: Final = Struct("=IIIq")


class Command(NamedTuple):
    """A command to follow a change seen at a time (nanoseconds), or to stop following it."""

    follows: int
    event: int
    question: int = 0
    seen: int = 0


class Probe(NamedTuple):
    """An answer; `server` is its index, `reply` the number of its content, times in nanoseconds."""

    event: int
    server: int
    flags: int
    reply: int
    sent: int
    received: int


class ProbeQuery(Query, kw_only=True):
    """A query about a change to a server; the number of its question is that of the event."""

    server: int


@dataclass(kw_only=True)
class Prober(Loop):
    """Queries servers in turn, each by one of `transports`, which say to this how each ended.

    `queries` are without IDs.  Whoever waits calls obey() for each command.
    """

    queries: Sequence[bytes]
    emit: Callable[[bytes], None]
    transports: Sequence[Transport] = ()
    # Time, event, index in the series.
    _due: list[tuple[int, int, int]] = field(default_factory=list)
    # Question, and when the change was seen.
    _events: dict[int, tuple[int, int]] = field(default_factory=dict)
    _replies: dict[bytes, int] = field(default_factory=dict)
    _probes: bytearray = field(default_factory=bytearray)

    def obey(self, command: Command) -> None:
        """Follow a change, or stop following it."""
        if command.follows:
            self._events[command.event] = command.question, command.seen
            heappush(self._due, (command.seen, command.event, 0))
        else:
            self._events.pop(command.event, None)

    def send_due(self, now: int) -> int:
        """Send the probes that are due."""
        while self._due and self._due[0][0] <= now:
            self._send(now)
        return self._due[0][0] if self._due else now + LONGEST

    def expire(self, now: int) -> None:
        """Emit the answers that have arrived."""
        if self._probes:
            self.emit(frame(PROBES, self._probes))
            self._probes.clear()
        for transport in self.transports:
            transport.expire(now)

    def _send(self, now: int) -> None:
        """Send the probe that is due, and schedule the next one of its change that is not in the past."""
        _, event, number = heappop(self._due)
        found = self._events.get(event)
        if found is None:
            return
        question, seen = found
        for server, transport in enumerate(self.transports):
            transport.ask(ProbeQuery(self.queries[question], event, now, now, server=server))
            transport.flush()
        number += 1
        while number < len(SERIES) and seen + SERIES[number] <= now:
            number += 1
        if number < len(SERIES):
            heappush(self._due, (seen + SERIES[number], event, number))
        else:
            del self._events[event]

    def ended(self, query: Query, message: bytes, received: int) -> None:
        """Take an answer of a server; a probe without one says nothing."""
        assert isinstance(query, ProbeQuery), "no other is sent"
        if not message:
            return
        event, content = query.question, message[2:]
        reply = self._replies.get(content)
        if reply is None:
            reply = self._replies[content] = len(self._replies)
            self.emit(reply_frame(reply, event, content))
        flags = message[2] << 8 | message[3]
        self._probes += PROBE.pack(event, query.server, flags, reply, query.planned, received)


MOST_EVENTS: Final = 50_000  # per run
_MOST_WRITES: Final = 10_000  # pending ones
_TRIED: Final = 8  # questions of a Service that are checked


class Event(msgspec.Struct):
    """A change of a Service: from `state` on a question has another answer; times in monotonic seconds.

    `adds`, `removes`: whether records are new, and whether records are gone.  `written` is None while it is unknown.
    """

    number: int
    key: Key
    question: int
    state: int
    seen: float
    adds: bool
    removes: bool
    written: float | None = None


@dataclass
class Follower:
    """Follows changes with at most `rate` probes per second; `ask` starts one, or returns False.

    `expected` gives the right answer to a question in a state (Truth.expected).
    """

    expected: Callable[[int, int], Answer | None]
    by_service: Mapping[Key, Sequence[int]]
    rate: float
    ask: Callable[[Event], bool]
    clock: Callable[[], float]
    events: list[Event] = field(default_factory=list)
    _back: deque[int] = field(default_factory=deque)  # probes returned from another thread
    _unwritten: dict[str, Event] = field(default_factory=dict)  # by resourceVersion
    _writes: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._left = self._most = max(self.rate, len(SERIES))
        self._filled = self.clock()

    def changed(self, key: Key, state: int, seen: float, version: str) -> None:
        """Record that a Service has a new state, since a resourceVersion of one of its objects was seen."""
        if key not in self.by_service or not self._has_probes():
            return
        for question in self.by_service[key][:_TRIED]:
            before, after = self.expected(question, state - 1), self.expected(question, state)
            if before is not None and after is not None and before[:2] != after[:2]:
                break
        else:
            return
        adds = bool(after.records - before.records) or after.rcode < before.rcode
        removes = bool(before.records - after.records) or after.rcode > before.rcode
        written = self._writes.pop(version, None)
        event = Event(len(self.events), key, question, state, seen, adds, removes, written)
        self.events.append(event)
        if not self.ask(event):
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
        now = self.clock()
        while self._back:
            self._left += self._back.popleft()
        self._left = min(self._most, self._left + (now - self._filled) * self.rate)
        self._filled = now
        return self._left > len(SERIES) - 0.001 and len(self.events) < MOST_EVENTS
