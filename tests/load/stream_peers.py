"""Connections without sockets: links that a test answers, and a scene that is played step by step and told in words."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle

from hsdns.load.plan import StreamPlan
from hsdns.load.send.clients import ClientPool, ClientSockets
from hsdns.load.send.connection import Connection, FramedSession, Pool
from hsdns.load.send.loop import Query
from hsdns.load.send.udp import UdpTransport
from hsdns.wire.framing import FrameBuffer, frame

OCTETS = b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1"
MS = 1_000_000
ERRORS: dict[str, bytes | OSError] = {
    "end": b"",
    "garbage": b"\0\2no",
    "reset": ConnectionResetError(104, "Connection reset by peer"),
    "time-out": TimeoutError(110, "Connection timed out"),
}


def answer(query: bytes) -> bytes:
    """A reply to a query that has its ID."""
    return query[:2] + b"\x84\0" + query[4:]


class Link:
    """A socket in memory; `refuses` in place of being connected, `room` octets are taken."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.refuses = ""
        self.room = 1 << 30
        self.frames = FrameBuffer()
        self.queries: list[bytes] = []  # that have no reply yet
        self.replied = b""
        self.given: deque[bytes | OSError] = deque()
        self.is_closed = self.watches = False

    def set_up(self) -> bool:
        if self.refuses:
            raise OSError(111, self.refuses)
        return True

    def send(self, octets: bytes | bytearray) -> int:
        if self.given and isinstance(self.given[0], OSError):
            raise self.given[0]
        taken = bytes(octets[: self.room])
        self.room -= len(taken)
        self.queries += self.frames.feed(taken)
        return len(taken)

    def receive(self) -> tuple[bytes, bool]:
        if not self.given:
            return b"", False
        found = self.given.popleft()
        if isinstance(found, OSError):
            raise found
        return found, not found

    def watch_writing(self, *, is_on: bool) -> None:
        self.watches = is_on

    def close(self) -> None:
        self.is_closed = True


class Socket:
    """A UDP socket in memory."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.given: list[tuple[bytes, int]] = []

    def left(self) -> None:
        """No datagram is stamped."""

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        self.sent += datagrams
        return []

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        found, self.given = self.given, []
        return found, False


class Scene:
    """A pool, its links in the order in which they were opened, and over UDP two sockets before it."""

    def __init__(self, words: str = "", first_ids: Sequence[int] = (7, 515)) -> None:
        given = dict(each.split("=") for each in words.split() if "=" in each)
        self.lacks = "no-sockets" in words
        plan = StreamPlan(
            connections=int(given.get("connections", 1)),
            pipeline=int(given.get("pipeline", 100)),
            queries=int(given.get("queries", 0)),
            idle=int(given["idle"]) * MS if "idle" in given else -1,
            for_truncated="udp" in words,
        )
        self.now = 1000 * MS
        self.links: list[Link] = []
        self.answers: list[tuple[str, int]] = []
        self.waits = 0  # queries without an outcome
        self._before: Counter[str] = Counter()

        clock: Callable[[], int] = lambda: self.now  # noqa: E731 - a clock is a value here
        kind: Callable[..., Pool] = Pool
        make: Callable[..., UdpTransport] = UdpTransport
        if "clients" in given:  # queries are theirs in turn
            count = int(given["clients"])
            kind = partial(ClientPool, asking=cycle(range(count)), sources=[""] * count)
            make = partial(ClientSockets, asking=cycle(range(count)))
        self.pool = kind(self._open, plan, 2000 * MS, FramedSession, self.ended, clock)
        self.sockets = [Socket(), Socket()]
        self.transport: Pool | UdpTransport = self.pool
        if plan.for_truncated:
            self.transport = make(
                self.sockets, 2000 * MS, self.ended, clock, first_ids=first_ids, fallback=self.pool
            )

    def _open(self, connection: Connection) -> Link:
        if self.lacks:
            raise OSError(24, "Too many open files")
        self.links.append(Link(connection))
        return self.links[-1]

    def ended(self, query: Query, message: bytes, received: int) -> None:
        late, took = (query.sent - query.planned) // MS, (received - query.planned) // MS
        times = f" after {took} ms" * bool(took) + f" late by {late} ms" * bool(late)
        word = f"answered{times}" if message else {0: "lost", -1: "not sent"}[received]
        self.answers.append((word, query.question))
        self.waits -= 1

    def step(self, text: str) -> None:
        """Do what a step says: its word, the number of a link or socket, and more numbers."""
        word, *rest = text.split()
        numbers = list(map(int, rest))
        link = self.links[numbers[0]] if numbers and numbers[0] < len(self.links) else None
        if word == "ask":
            self.waits += len(numbers)
            for question in numbers:
                self.transport.ask(Query(OCTETS, question, self.now, self.now))
        elif word == "pass":
            self.now += numbers[0] * MS
            self.transport.expire(self.now)
        elif word == "close":
            self.transport.close()
        elif word in ("udp", "truncated"):
            at, query_id, *received = numbers
            octets = query_id.to_bytes(2, "big") + OCTETS
            octets = octets[:2] + b"\x86\0" + octets[4:] if word == "truncated" else answer(octets)
            self.sockets[at].given.append((octets, received[0] * MS if received else 0))
            assert isinstance(self.transport, UdpTransport)
            self.transport.receive(at)
        elif word in ("connect", "refuse", "room"):
            for each in numbers if word == "connect" else numbers[:1]:
                found = self.links[each]
                found.refuses = "connection refused" if word == "refuse" else ""
                found.room = numbers[1] if word == "room" else found.room
                self.pool.can_write(found.connection)
        elif link is not None and word == "broken":
            link.given.append(BrokenPipeError(32, "Broken pipe"))
        elif link is not None and word == "reply":
            which = numbers[1:] or range(len(link.queries))
            replies = [answer(link.queries[at]) for at in which]
            link.queries = [query for at, query in enumerate(link.queries) if at not in which]
            for link.replied in replies:
                self._give(link, frame(link.replied))
        elif link is not None:
            reply = link.replied if word == "again" else answer(b"\7\7" + OCTETS)
            self._give(link, ERRORS.get(word, frame(reply)))
        self.transport.flush()

    def _give(self, link: Link, octets: bytes | OSError) -> None:
        link.given.append(octets)
        self.pool.can_read(link.connection)

    def told(self) -> str:
        """What has happened since the last time: of connections, then of queries."""
        counts, now = self.pool.counts, Counter[str]()
        now.update({"opened": counts.opened, "asked again": counts.asked_again})
        now.update({"late replies": counts.late, "truncated": counts.fell})
        for word in ("not_opened", "ended", "without_answer"):
            now.update({f"{word}: {why}": n for why, n in getattr(counts, word).items()})
        for at, link in enumerate(self.links):
            now.update({f"link {at}": 1, f"{at} closed": link.is_closed})
            now.update({f"{at} has": len(link.queries), f"{at} waits for room": link.watches})
        new = [
            f"{word} {count}" if word.endswith("has") or count - self._before[word] > 1 else word
            for word, count in now.items()
            if count != self._before[word] and count
        ]
        self._before, answers, self.answers = now, self.answers, []
        words = dict.fromkeys(word for word, _ in answers)
        new += [
            f"{word}: {' '.join(str(n) for each, n in answers if each == word)}" for word in words
        ]
        return ", ".join(new)
