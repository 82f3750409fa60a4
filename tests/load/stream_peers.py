"""Connections without sockets: links that a test answers, and an ear that keeps what is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hsdns.load.outcome import (
    AGAIN,
    ENDED,
    LATE,
    NOT_DNS,
    NOT_OPENED,
    OPENED,
    Fact,
    pack_facts,
)
from hsdns.load.plan import StreamPlan
from hsdns.load.results import ConnectionsReport
from hsdns.load.send.connection import Connection, FramedSession, Session
from hsdns.load.send.loop import Query
from hsdns.load.send.pool import Pool
from hsdns.wire.framing import FrameBuffer, frame

OCTETS = b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"
MS = 1_000_000
WORDS = {OPENED: "opened", NOT_OPENED: "not opened", ENDED: "ended", AGAIN: "again", LATE: "late", NOT_DNS: "failed"}  # fmt: skip


def answer(query: bytes) -> bytes:
    """A reply to a query that has its ID."""
    return query[:2] + b"\x84\0" + query[4:]


class Link:
    """A socket in memory; `refuses` in place of being connected, `room` octets are taken."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.refuses = ""
        self.room = 1 << 30
        self.sent = bytearray()
        self.given: deque[bytes | OSError] = deque()
        self.is_closed = False
        self.watches = False

    def fault(self) -> str:
        return self.refuses

    def send(self, octets: bytes) -> int:
        if self.given and isinstance(self.given[0], OSError):
            raise self.given[0]
        taken = octets[: self.room]
        self.room -= len(taken)
        self.sent += taken
        return len(taken)

    def receive(self) -> bytes | None:
        if not self.given:
            return None
        found = self.given.popleft()
        if isinstance(found, OSError):
            raise found
        return found

    def watch_writing(self, *, is_on: bool) -> None:
        self.watches = is_on

    def close(self) -> None:
        self.is_closed = True

    def queries(self) -> list[bytes]:
        """Take the DNS messages that were sent."""
        found = FrameBuffer().feed(bytes(self.sent))
        self.sent.clear()
        return found


class Scene:
    """A pool, its links in the order in which they were opened, and what was told: (word, why) and (question, status)."""

    def __init__(
        self,
        plan: StreamPlan,
        *,
        timeout: int = 2000 * MS,
        session: Callable[[], Session] = FramedSession,
        lacks: bool = False,
    ) -> None:
        self.now = 1000 * MS
        self.links: list[Link] = []
        self.facts: list[tuple[str, str]] = []
        self.counts = ConnectionsReport()
        self.answers: list[tuple[int, str]] = []
        self.lacks = lacks

        def make(now: int) -> Connection:
            return Connection(session(), None, plan.pipeline, plan.queries, now)

        self.pool = Pool(plan, timeout, make, self._open, self, lambda: self.now)

    def _open(self, connection: Connection) -> Link:
        if self.lacks:
            raise OSError(24, "Too many open files")
        self.links.append(Link(connection))
        return self.links[-1]

    def fact(self, fact: Fact) -> None:
        self.facts.append((WORDS[fact.kind], fact.why))
        self.counts.add(pack_facts([fact]))

    def reply(self, query: Query, message: bytes, now: int) -> None:
        self.answers.append((query.question, "answered"))

    def without_reply(self, query: Query, why: int) -> None:
        self.answers.append((query.question, {0: "lost", -1: "not sent"}[why]))

    def ask(self, *questions: int) -> None:
        """Ask questions at once."""
        for question in questions:
            self.pool.ask(Query(OCTETS, question, self.now, self.now))
        self.pool.flush()

    def connect(self, *numbers: int) -> None:
        """Have links connected."""
        for number in numbers:
            self.pool.can_write(self.links[number].connection)
        self.pool.flush()

    def give(self, number: int, *pieces: bytes | OSError) -> None:
        """Have something come on a link."""
        link = self.links[number]
        for piece in pieces:
            link.given.append(piece)
            self.pool.can_read(link.connection)
        self.pool.flush()

    def reply_to(self, number: int, *which: int) -> None:
        """Answer the queries that a link has sent, all of them or some by their place, in that order."""
        queries = self.links[number].queries()
        for at in which or range(len(queries)):
            self.give(number, frame(answer(queries[at])))

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds * MS
        self.pool.expire(self.now)
        self.pool.flush()

    def take(self) -> list[tuple[object, str]]:
        """Take what was told since the last time: facts first, then answers."""
        found = [*self.facts, *self.answers]
        self.facts.clear()
        self.answers.clear()
        return found
