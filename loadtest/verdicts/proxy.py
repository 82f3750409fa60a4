"""A proxy over UDP that alters replies at random times, and records each: its time, its kind and the right verdict.

Path: __main__.py -> here, between `hsdns load` and the server; corruption.py alters.
Rule 1: a kind comes again only after all others that the replies allow; the times between two are exponential.
Rule 2: STALE is an answer of before a change that was seen at least AGED earlier, if that has not been given since.
"""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Final, NamedTuple, Self

from hsdns.load.verify.judge import Answer
from hsdns.load.verify.message import read
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.message import Query
from loadtest.verdicts.corruption import Kind, alter, fits, read_kinds

STALE: Final = Kind("an answer of before", "answer", (), "stale")
TWICE: Final = Kind("a reply twice", "any", (), "unanswered late or repeated")
AGED: Final = 0.5  # seconds
FIRST: Final = 300
_MOST: Final = 65_535
_SO_RCVBUFFORCE: Final = 33
_BUFFER: Final = 1 << 23  # octets
_OLD: Final = 8192  # queries that are remembered


class Altered(NamedTuple):
    """A reply that was altered, at a time of the clock."""

    time: float
    kind: Kind


class _Past(NamedTuple):
    """The answer of before to a question, the one since, and when that was first seen."""

    before: bytes | None
    since: Answer
    time: float


class Proxy(threading.Thread):
    """Listens at a port of loopback, for a server at `target`.

    It alters replies for `seconds`, from `after` seconds after the load has begun, which is the FIRST-th query.
    """

    def __init__(self, target: int, after: float, seconds: float, gap: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.altered: list[Altered] = []
        self._target, self._after, self._seconds, self._gap = target, after, seconds, gap
        self._random = random.Random(seed)
        self._kinds = [*read_kinds("corruptions.txt"), STALE, TWICE]
        self._random.shuffle(self._kinds)
        self._count, self._next, self._end = 0, float("inf"), 0.0
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        with suppress(OSError):  # as root, more than the limit
            self._front.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
        self.port = self._front.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._front, selectors.EVENT_READ)
        self._back: dict[tuple[str, int], socket.socket] = {}
        self._queries: dict[tuple[tuple[str, int], bytes], Query] = {}
        self._past: dict[bytes, _Past] = {}
        self._last: dict[bytes, bytes] = {}
        self._is_over = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        self.join()
        for each in (self._front, *self._back.values()):
            each.close()

    def run(self) -> None:
        """Pass datagrams on."""
        while not self._is_over:
            for key, _ in self._selector.select(0.1):
                with suppress(OSError):
                    if key.data is None:
                        self._ask()
                    else:
                        self._answer(key.data)

    def _ask(self) -> None:
        octets, client = self._front.recvfrom(_MOST)
        self._count += 1
        if self._count == FIRST:
            self._next = time.time() + self._after
            self._end = self._next + self._seconds
        back = self._back.get(client)
        if back is None:
            back = self._back[client] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            back.connect(("127.0.0.1", self._target))
            self._selector.register(back, selectors.EVENT_READ, client)
        with suppress(BadQuery):
            self._queries[client, octets[:2]] = decode(octets)
            if len(self._queries) > _OLD:
                del self._queries[next(iter(self._queries))]
        back.send(octets)

    def _answer(self, client: tuple[str, int]) -> None:
        octets = self._back[client].recv(_MOST)
        query = self._queries.pop((client, octets[:2]), None)
        now = time.time()
        if query is not None:
            older = self._older(octets, query, now)
            if self._next <= now < self._end:
                octets = self._alter(octets, query, older, now, client)
        self._front.sendto(octets, client)

    def _older(self, octets: bytes, query: Query, now: float) -> bytes | None:
        """The reply of before the last change, if that was long enough ago."""
        reading, key = read(octets[2:], query), query.question_wire
        past = self._past.get(key)
        if reading is None or reading.field:
            return None
        if past is None or past.since != reading.answer:
            before = None if past is None else self._last[key]
            past = self._past[key] = _Past(before, reading.answer, now)
        self._last[key] = octets
        return past.before if now - past.time > AGED else None

    def _alter(
        self, octets: bytes, query: Query, older: bytes | None, now: float, client: tuple[str, int]
    ) -> bytes:
        for at, kind in enumerate(self._kinds):
            if (older is None and kind == STALE) or not fits(kind, octets, query):
                continue
            self._kinds.append(self._kinds.pop(at))
            self.altered.append(Altered(now, kind))
            self._next = now + self._random.expovariate(1 / self._gap)
            if kind == STALE and older is not None:
                return octets[:2] + older[2:]
            if kind == TWICE:
                self._front.sendto(octets, client)
                return octets
            return alter(kind, octets, query)
        return octets
