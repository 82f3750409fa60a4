"""Truncated answers of wires in memory, asked again over connections in memory."""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.load.outcome import CONNECTIONS, Frames
from hsdns.load.plan import StreamPlan
from hsdns.load.results import ConnectionsReport
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.pool import Hears, Pool
from hsdns.load.send.stream import Falls
from hsdns.wire.framing import frame
from tests.load.stream_peers import MS, OCTETS, Link, answer


class Wire:
    """A UDP socket."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.given: list[list[bytes]] = []

    def send(self, queries: Sequence[bytes]) -> Sequence[int]:
        self.sent += queries
        return []

    def receive(self) -> tuple[list[bytes], bool]:
        return (self.given.pop(0) if self.given else []), bool(self.given)


class Scene:
    """Two wires with one connection for what they have truncated."""

    def __init__(self) -> None:
        self.now = 1000 * MS
        self.links: list[Link] = []
        self.emitted: list[bytes] = []
        self.wires = [Wire(), Wire()]
        plan = StreamPlan(connections=1, for_truncated=True)

        def make(now: int) -> Connection:
            return Connection(FramedSession(), None, plan.pipeline, plan.queries, now)

        def make_pool(hears: Hears) -> Pool:
            return Pool(plan, 2000 * MS, make, self.open, hears, lambda: self.now)

        self.falls = Falls(self.wires, make_pool, self.emitted.append, lambda: self.now)

    def open(self, connection: Connection) -> Link:
        self.links.append(Link(connection))
        return self.links[-1]

    def connect(self) -> Link:
        self.falls.pool.can_write(self.links[-1].connection)
        self.falls.pool.flush()
        return self.links[-1]

    def counts(self) -> ConnectionsReport:
        self.falls.close()
        found = ConnectionsReport()
        for kind, content in Frames().feed(b"".join(self.emitted)):
            assert kind == CONNECTIONS
            found.add(content)
        return found


def query(number: int) -> bytes:
    return number.to_bytes(2, "big") + OCTETS


def truncated(number: int) -> bytes:
    return number.to_bytes(2, "big") + b"\x86\0" + OCTETS[2:]


def test_the_reply_over_tcp_comes_back_with_the_id_of_the_query() -> None:
    scene = Scene()
    wire = scene.falls.wires[1]
    assert wire.send([query(7), query(515)]) == []
    assert scene.wires[1].sent == [query(7), query(515)]
    scene.wires[1].given = [[answer(query(7)), truncated(515)]]
    assert wire.receive() == ([answer(query(7))], False)
    assert wire.receive() == ([], False)
    (asked,) = scene.connect().queries()
    assert asked[2:] == OCTETS
    assert scene.falls.turn() == []
    link = scene.links[0]
    link.given.append(frame(answer(asked)))
    scene.falls.pool.can_read(link.connection)
    assert scene.falls.turn() == [1]
    assert wire.receive() == ([answer(query(515))], False)
    counts = scene.counts()
    assert (counts.fell, counts.opened, counts.open) == (1, 1, 0)


def test_the_same_answer_twice_and_one_to_nothing() -> None:
    scene = Scene()
    wire = scene.falls.wires[0]
    wire.send([query(1)])
    scene.wires[0].given = [[truncated(1), truncated(1)], [truncated(9)], [b"short"]]
    assert [wire.receive() for _ in range(3)] == [([], True), ([], True), ([b"short"], False)]
    assert scene.falls.pool.waits == 1


def test_without_a_reply() -> None:
    scene = Scene()
    wire = scene.falls.wires[0]
    wire.send([query(1)])
    scene.wires[0].given = [[truncated(1)]]
    assert wire.receive() == ([], False)
    scene.links[0].refuses = "connection refused"
    scene.connect()
    assert scene.falls.turn() == []
    counts = scene.counts()
    assert (counts.fell, counts.not_opened) == (1, {"connection refused": 1})
