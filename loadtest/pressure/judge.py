"""Changes Services through the API server, queries them over UDP and judges every answer.

Path: run.py, soak.py -> Judge -> api_servers.py (changes), Unseen (what to query), History (judgement, by
      load/verify/judge.py), the server under test.
Rule 1: changes go from Service to Service in turn, at a known rate.  The judge queries a Service from a little before
        its change until an answer shows it, and any Service from time to time, to detect answers that return to an old
        state.
Rule 2: it sends at most one query a millisecond, from several ports, so that all workers of a server get queries.
Rule 3: if more than TIMED Services change each second, it measures the delay of only every second, third ... Service,
        and only judges the answers of the others: otherwise the delay would be its own, because it would have too many
        Services to query.
Rule 4: if the system allows it, this thread has priority over all attackers, so that delays are the server's.
Rule 5: a state is true from the write of its event at the API server until the write of the next one.  An answer is
        right if its addresses were true at some time between MARGIN before the query was sent and the arrival of the
        reply.  It is wrong if they never were, and stale if a later state had been shown before the query was sent, or
        the state had ended more than PATIENCE before that.  Else it is late: the server has not had the event yet,
        which the delay of that event measures.  On a machine that is busy, the event may not have been sent.
Rule 6: the first reply with a change's state or a later one shows it.  The judge stops to query for it after an answer
        whose query was sent when the change was due, and whose addresses are others than those of the answer before:
        the answer to an earlier query may show the change before that, if this was late.
Rule 7: answers count in the order of their queries: one that was overtaken has an older state, and the next one would
        seem to show a change.
"""

from __future__ import annotations

import math
import random
import select
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from hsdns.load.verify.judge import RIGHT, STALE, WRONG, judge
from hsdns.load.verify.judge import Answer as Said
from loadtest.apiserver.objects import namespace_of
from loadtest.dns import addresses, question, service_name
from loadtest.figures import Spread
from loadtest.pressure.machine import raise_priority
from loadtest.process import BenchmarkError
from loadtest.watch.api_servers import FakeApiProcess

GIVE_UP: Final = 5.0  # seconds after which a Service is no longer queried for a change


class _Seen(NamedTuple):
    asked: float
    addresses: frozenset[str]


class Unseen:
    """Services by number, with the addresses that each had before; times are those of one clock, in seconds."""

    def __init__(self, before: Mapping[int, Iterable[str]]) -> None:
        self._due: dict[int, float] = {}
        self._seen = {  # the answer to the latest query
            service: _Seen(-math.inf, frozenset(addresses)) for service, addresses in before.items()
        }

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, service: int, due: float) -> None:
        """Add a change that is due at this time."""
        self._due[service] = due

    def next(self, now: float) -> int:
        """The Service to query now; each in turn.  Only if there are any."""
        service, due = next(iter(self._due.items()))
        del self._due[service]
        if now < due + GIVE_UP:
            self._due[service] = due  # moved behind the others
        return service

    def take(self, service: int, asked: float, addresses: frozenset[str]) -> None:
        """Take the answer to a query that was sent at `asked`."""
        before = self._seen[service]
        if asked < before.asked:
            return
        self._seen[service] = _Seen(asked, addresses)
        due = self._due.get(service)
        if due is not None and asked >= due and addresses != before.addresses:
            del self._due[service]


MARGIN: Final = 0.1  # seconds
PATIENCE: Final = 1.0  # seconds
LATE: Final = "late"
FAILED: Final = "failed"
_STATES = 200  # past states of a Service that are remembered; older ones count as wrong


class Answer(NamedTuple):
    """A reply: clock times of query and reply, and the addresses; None if it was not NOERROR with addresses."""

    service: str
    asked: float
    received: float
    addresses: frozenset[str] | None


class _State(NamedTuple):
    since: float
    addresses: frozenset[str]
    number: int  # of the change that made it; -1 at the beginning


class History:
    """The states of Services, beginning with the addresses that each had at the start.

    Delays are measured for changes of the Services in `timed`; None: of all.
    """

    def __init__(
        self, before: Mapping[str, Iterable[str]], timed: Collection[str] | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.worst_age = 0.0  # seconds by which the oldest stale answer was late
        self._states = {
            service: deque([_State(float("-inf"), frozenset(addresses), -1)], _STATES)
            for service, addresses in before.items()
        }
        self._unshown: dict[str, list[tuple[int, float]]] = {
            service: [] for service in (before if timed is None else timed)
        }
        # When an answer first showed a change, and its number.
        self._shown_at: dict[str, deque[tuple[float, int]]] = {
            service: deque(maxlen=_STATES) for service in before
        }
        self._changes = 0

    def change(self, time: float, service: str, old: str, new: str) -> None:
        """Record that one address replaced another; raise KeyError for a Service that is not among them."""
        states = self._states[service]
        addresses = states[-1].addresses - {old} | {new}
        states.append(_State(time, addresses, self._changes))
        if service in self._unshown:
            self._unshown[service].append((self._changes, time))
        self._changes += 1

    def judge(self, answer: Answer) -> tuple[str, list[float]]:
        """Judge an answer; return the verdict, and the delays in seconds of the changes that it is the first to show.

        All changes up to its arrival must be recorded.
        """
        word, shown = self._judge(answer)
        self.counts[word] += 1
        return word, shown

    def _judge(self, answer: Answer) -> tuple[str, list[float]]:
        if answer.addresses is None:
            return FAILED, []
        states = self._states[answer.service]
        found = judge(
            [state.since for state in states],
            lambda number: _said(states[number].addresses),
            answer.asked,
            answer.received,
            _said(answer.addresses),
            MARGIN,
        )
        number = next(
            (
                state.number
                for state in reversed(states)
                if state.addresses == answer.addresses and state.since <= answer.received
            ),
            None,
        )
        if number is None:
            return WRONG, []
        if self._goes_back(answer, number) or found.age >= PATIENCE:
            self.worst_age = max(self.worst_age, found.age)
            return STALE, []
        return (LATE, []) if found.word == STALE else (RIGHT, self._shown(answer, number))

    def _goes_back(self, answer: Answer, number: int) -> bool:
        """Whether a later change than this one had been shown before the query was sent."""
        shown = reversed(self._shown_at[answer.service])
        return number < next((last for at, last in shown if at < answer.asked), number)

    def _shown(self, answer: Answer, number: int) -> list[float]:
        shown = self._shown_at[answer.service]
        if not shown or number > shown[-1][1]:
            shown.append((answer.received, number))
        waiting = self._unshown.get(answer.service, [])
        delays = [answer.received - time for which, time in waiting if which <= number]
        waiting[:] = [each for each in waiting if each[0] > number]
        return delays

    def unshown(self, since: float, now: float) -> list[float]:
        """For changes from before `since` that no answer has shown yet: the seconds since each of them."""
        return [
            now - time for waiting in self._unshown.values() for _, time in waiting if time < since
        ]


def _said(addresses: frozenset[str]) -> Said:
    return Said(0, frozenset((1, address.encode()) for address in addresses))


ASK_EVERY: Final = 0.001  # seconds
AMONG: Final = 100  # Services that are changed
TIMED: Final = 40.0  # changes a second whose delays are measured
SLOW: Final = 0.02  # seconds
_LEAD = 0.005  # seconds before a change from which its Service is queried
_POLL = 0.1  # seconds between two requests for the changes
_SOCKETS = 8
_STROLL = 10  # one query in this number is for any of the Services
_TAIL = 0.5  # seconds before the end in which a change need not be shown
_SWITCH_INTERVAL = (
    0.0005  # seconds for which another thread of this process may delay the reception of a reply
)


def addresses_of(name: str, reply: bytes) -> frozenset[str] | None:
    """The A records of a reply to the question for a name; None if it failed, has none, or is truncated."""
    if reply[3] & 15 or reply[2] & 2:
        return None
    return addresses(name, reply) or None


class Judge(threading.Thread):
    """Judges a server for some seconds; a thread that is to be started and joined.

    `history`, `delays` (seconds from write to answer), `slow` (those above SLOW, from when to when), `taken` (changes)
    and `asked` (queries) grow until the join; `failure` says why it stopped early.
    """

    def __init__(
        self, port: int, api: FakeApiProcess, rate: float, seconds: float, *, among: int = AMONG
    ) -> None:
        super().__init__(name="judge", daemon=True)
        self.delays: list[float] = []
        self.slow: list[tuple[float, float]] = []
        self.history = History({})
        self.asked = self.taken = 0
        self.failure: BaseException | None = None
        self._port = port
        self._api = api
        self._rate = rate
        self._seconds = seconds
        self._among = among
        self._names = [service_name(namespace_of(each), f"web-{each}") for each in range(among)]
        self._queries = [*map(question, self._names)]
        self._waiting: deque[Answer] = deque()
        self._sent: dict[tuple[int, int], tuple[int, float]] = {}
        self._unseen = Unseen({})
        self._scheduled = 0
        self._step = math.ceil(rate / TIMED)
        if among % self._step:
            raise ValueError(f"{among} Services are not a multiple of {self._step}")
        self._over = threading.Event()

    def run(self) -> None:
        """Change, query and judge until the time is over."""
        raise_priority()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            self._run()
        except BaseException as error:  # spread() raises it in the thread that joins
            self.failure = error

    def spread(self, first: int = 0) -> Spread | None:
        """The delays from this number on; None if there were none.

        To sort all of them stops this thread, which counts as a delay of the server: while it judges, only the last
        ones.
        """
        if self.failure is not None:
            raise BenchmarkError(f"the judge stopped: {self.failure!r}") from self.failure
        delays = self.delays[first:]
        return Spread.of(delays) if delays else None

    def _run(self) -> None:
        before = self._api.start_changes(self._rate, self._seconds, self._among)
        first = self._api.first_change()
        self._origin, self._index = first.time, int(first.service.removeprefix("web-"))
        timed = range(self._index % self._step, self._among, self._step)
        self._unseen = Unseen({int(each.removeprefix("web-")): of for each, of in before.items()})
        self.history = History(before, [f"web-{index}" for index in timed])
        feeder = threading.Thread(target=self._feed, daemon=True)
        feeder.start()
        socks = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(_SOCKETS)]
        try:
            for sock in socks:
                sock.connect(("127.0.0.1", self._port))
                sock.setblocking(False)
            end = first.time + self._seconds
            while (now := time.monotonic()) < end:
                self._schedule(now)
                self._ask(socks, now)
                self._receive(socks, now + ASK_EVERY)
            self._receive(socks, time.monotonic() + _TAIL)
        finally:
            self._over.set()
            feeder.join()
            for sock in socks:
                sock.close()
        self._note(self.history.unshown(end - _TAIL, end), end)

    def _schedule(self, now: float) -> None:
        while (due := self._origin + self._scheduled / self._rate) < now + _LEAD:
            self._unseen.add((self._index + self._scheduled) % self._among, due)
            self._scheduled += self._step

    def _ask(self, socks: list[socket.socket], now: float) -> None:
        strolls = not self._unseen or self.asked % _STROLL == 0
        index = random.randrange(self._among) if strolls else self._unseen.next(now)
        which, number = self.asked % _SOCKETS, self.asked // _SOCKETS & 0xFFFF
        self.asked += 1
        self._sent[which, number] = index, time.monotonic()
        try:
            socks[which].send(number.to_bytes(2, "big") + self._queries[index])
        except OSError:  # not listening, or no room in the buffer
            del self._sent[which, number]

    def _receive(self, socks: list[socket.socket], until: float) -> None:
        while True:
            ready = select.select(socks, [], [], max(0.0, until - time.monotonic()))[0]
            for sock in ready:
                try:
                    reply = sock.recv(4096)
                except OSError:
                    continue
                self._take(socks.index(sock), reply, time.monotonic())
            if time.monotonic() >= until:
                return

    def _take(self, which: int, reply: bytes, now: float) -> None:
        sent = self._sent.pop((which, reply[0] << 8 | reply[1]), None)
        if sent is None:
            return
        index, asked = sent
        found = addresses_of(self._names[index], reply)
        self._waiting.append(Answer(f"web-{index}", asked, now, found))
        if found is not None:
            self._unseen.take(index, asked, found)

    def _feed(self) -> None:
        """Fetch the changes, and judge the answers from before the request for them."""
        raise_priority()
        is_last = False
        while not is_last:
            is_last = self._over.wait(_POLL)
            until = time.monotonic()
            try:
                changes = self._api.changes(self.taken)
            except (OSError, BenchmarkError) as error:
                self.failure = error
                return
            self.taken += len(changes)
            for change in changes:
                self.history.change(change.time, change.service, change.old, change.new)
            while self._waiting and self._waiting[0].received < until:
                answer = self._waiting.popleft()
                self._note(self.history.judge(answer)[1], answer.received)

    def _note(self, delays: list[float], until: float) -> None:
        self.delays += delays
        self.slow += [(until - delay, until) for delay in delays if delay > SLOW]
