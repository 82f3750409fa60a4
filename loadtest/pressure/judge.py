"""Changes Services through the API server, queries them over UDP and judges every answer.

Path: run.py, soak.py -> here -> fake_api_process.py (changes), history.py (judgement), the server under test.
Rule 1: changes go from Service to Service in turn, at a known rate.  The judge queries a Service from a little before
        its change until an answer shows it, and any Service from time to time, to detect answers that return to an old
        state.
Rule 2: it sends at most one query a millisecond, from several ports, so that all workers of a server get queries.
Rule 3: if more than TIMED Services change each second, it measures the delay of only every second, third ... Service,
        and only judges the answers of the others: otherwise the delay would be its own, because it would have too many
        Services to query.
Rule 4: if the system allows it, this thread has priority over all attackers, so that delays are the server's.
"""

from __future__ import annotations

import math
import random
import select
import socket
import sys
import threading
import time
from collections import deque
from typing import Final

from loadtest.apiserver.objects import namespace_of
from loadtest.dns import question, service_name
from loadtest.figures import Spread
from loadtest.pressure.history import Answer, History
from loadtest.pressure.priority import raise_priority
from loadtest.pressure.unseen import Unseen
from loadtest.process import BenchmarkError
from loadtest.watch.fake_api_process import FakeApiProcess

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


def addresses_of(reply: bytes) -> frozenset[str] | None:
    """The A records of a reply with one question; None if it failed, has none, or is truncated."""
    count = reply[6] << 8 | reply[7]
    if reply[3] & 15 or reply[2] & 2 or not count:
        return None
    found = []
    at = _after_name(reply, 12) + 4
    for _ in range(count):
        at = _after_name(reply, at)
        if reply[at : at + 4] == b"\0\1\0\1":
            found.append(".".join(map(str, reply[at + 10 : at + 14])))
        at += 10 + (reply[at + 8] << 8 | reply[at + 9])
    return frozenset(found)


def _after_name(reply: bytes, at: int) -> int:
    while length := reply[at]:
        if length >= 0xC0:
            return at + 2
        at += 1 + length
    return at + 1


class Judge(threading.Thread):
    """Judges a server for some seconds; a thread that is to be started and joined.

    `history`, `delays` (seconds from write to answer), `slow` (those above SLOW, from when to when), `taken` (changes)
    and `asked` (queries) grow until the join; `failure` says why it stopped early.
    """

    def __init__(
        self,
        port: int,
        api: FakeApiProcess,
        rate: float,
        seconds: float,
        *,
        among: int = AMONG,
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
        self._queries = [
            question(service_name(namespace_of(index), f"web-{index}")) for index in range(among)
        ]
        self._waiting: deque[Answer] = deque()
        self._sent: dict[tuple[int, int], tuple[int, float]] = {}
        self._unseen = Unseen()
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
        found = self._sent.pop((which, reply[0] << 8 | reply[1]), None)
        if found is None:
            return
        index, asked = found
        addresses = addresses_of(reply)
        self._waiting.append(Answer(f"web-{index}", asked, now, addresses))
        if addresses is not None:
            self._unseen.take(index, asked, addresses)

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
