"""Datagrams over sockets in memory, truncated answers asked again over connections in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hsdns.load.outcome import CONNECTIONS, LOST, OUTCOMES, Frames, Outcome, unpack_outcomes
from hsdns.load.plan import StreamPlan
from hsdns.load.results import ConnectionsReport
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.loop import Query, Reporter
from hsdns.load.send.pool import Pool
from hsdns.load.send.udp import IDS, LEAST_WINDOW, RUN, UdpTransport, sockets_for, window_for
from hsdns.wire.framing import frame
from tests.load.stream_peers import MS, OCTETS, Link, answer


class Socket:
    """A UDP socket."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.given: list[list[tuple[bytes, int]]] = []

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        self.sent += datagrams
        return []

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        return (self.given.pop(0) if self.given else []), bool(self.given)


class Scene:
    """Two sockets with one connection for what they have truncated."""

    def __init__(self, first_ids: Sequence[int] = (7, 515)) -> None:
        self.now = 1000 * MS
        self.links: list[Link] = []
        self.emitted: list[bytes] = []
        self.sockets = [Socket(), Socket()]
        plan = StreamPlan(connections=1, for_truncated=True)
        reporter = self.reporter = Reporter(self.emitted.append, replies=False)

        def make(now: int) -> Connection:
            return Connection(FramedSession(), None, plan.pipeline, plan.queries, now)

        self.pool = Pool(plan, 2000 * MS, make, self.open, reporter, lambda: self.now)
        self.transport = UdpTransport(
            self.sockets,
            2000 * MS,
            reporter,
            lambda: self.now,
            first_ids=first_ids,
            fallback=self.pool,
        )

    def open(self, connection: Connection) -> Link:
        self.links.append(Link(connection))
        return self.links[-1]

    def ask(self, count: int = 1) -> None:
        for number in range(count):
            self.transport.ask(Query(OCTETS, number, self.now, self.now))
        self.transport.flush()

    def give(self, *datagrams: bytes, socket: int = 0, at: int = 0) -> None:
        self.sockets[socket].given = [[(each, at)] for each in datagrams]
        self.transport.receive(socket)
        self.transport.flush()

    def connect(self) -> Link:
        self.pool.can_write(self.links[-1].connection)
        self.transport.flush()
        return self.links[-1]

    def told(self) -> tuple[list[Outcome], ConnectionsReport]:
        self.transport.close()
        self.reporter.report()
        outcomes, found = [], ConnectionsReport()
        for kind, content in Frames().feed(b"".join(self.emitted)):
            if kind == OUTCOMES:
                outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
            elif kind == CONNECTIONS:
                found.add(content)
        return outcomes, found


def truncated(number: int) -> bytes:
    return number.to_bytes(2, "big") + b"\x86\0" + OCTETS[2:]


def test_sockets_and_ids() -> None:
    """RUN queries from one socket, then as many from the next, with IDs in order from its first."""
    scene = Scene((IDS - 1, 5))
    scene.ask(2 * RUN + 1)
    ids = [[int.from_bytes(each[:2], "big") for each in socket.sent] for socket in scene.sockets]
    assert ids == [[IDS - 1, *range(RUN)], [*range(5, 5 + RUN)]]


def test_a_reply_has_the_time_at_which_the_kernel_received_it() -> None:
    scene = Scene()
    scene.ask(2)
    scene.now += 30 * MS
    scene.give(answer((7).to_bytes(2, "big") + OCTETS), at=1010 * MS)
    scene.give(answer((8).to_bytes(2, "big") + OCTETS), at=3)  # the clock was set
    assert [each.received for each in scene.told()[0]] == [1010 * MS, 1000 * MS]


def test_a_truncated_answer_is_asked_again_over_tcp() -> None:
    scene = Scene()
    scene.ask(RUN + 1)
    scene.give(truncated(515), truncated(515), truncated(9999), b"short", socket=1)
    (asked,) = scene.connect().queries()
    assert (asked[2:], scene.transport.waits) == (OCTETS, RUN + 1)
    scene.now += 30 * MS
    link = scene.links[0]
    link.given.append(frame(answer(asked)))
    scene.pool.can_read(link.connection)
    (outcome,), counts = scene.told()
    assert outcome == Outcome(RUN, 0x8400, 0, 1000 * MS, 1000 * MS, 1030 * MS)
    assert (counts.fell, counts.opened, counts.open) == (1, 1, 0)


def test_a_truncated_answer_without_a_reply_over_tcp() -> None:
    scene = Scene()
    scene.ask()
    scene.give(truncated(7))
    scene.links[0].refuses = "connection refused"
    scene.connect()
    outcomes, counts = scene.told()
    assert [each.received for each in outcomes] == [LOST]
    assert (counts.fell, counts.not_opened) == (1, {"connection refused": 1})


@pytest.mark.parametrize(
    ("fastest", "timeout", "least", "sockets"),
    [(100, 2, 1, 1), (100, 2, 4, 4), (30_000, 2, 1, 3), (100_000, 2, 4, 10)],
)
def test_sockets(fastest: float, timeout: float, least: int, sockets: int) -> None:
    assert sockets_for(fastest, timeout, least) == sockets


@pytest.mark.parametrize(
    ("fastest", "timeout", "burst", "window"),
    [(100, 2, 1, LEAST_WINDOW), (100_000, 2, 1, 600_001), (100, 2, 100_000, 100_600)],
)
def test_window(fastest: float, timeout: float, burst: int, window: int) -> None:
    assert window_for(fastest, timeout, burst) == window
