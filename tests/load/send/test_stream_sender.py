"""The schedule is kept whatever the connections do; the clock is the test's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from hsdns.load.outcome import (
    CONNECTIONS,
    LOST,
    OUTCOMES,
    Frames,
    Outcome,
    unpack_outcomes,
)
from hsdns.load.plan import StreamPlan
from hsdns.load.results import ConnectionsReport
from hsdns.load.send.connection import Connection, FramedSession
from hsdns.load.send.pool import Pool
from hsdns.load.send.stream import StreamSender, Telling
from hsdns.wire.framing import frame
from tests.load.stream_peers import MS, OCTETS, Link, answer

BEGIN = 1000 * MS


class Run:
    """A run of queries due at some milliseconds; each turn of the clock takes 1 ms."""

    def __init__(self, times: list[int], plan: StreamPlan | None = None) -> None:
        self.now = BEGIN
        self.links: list[Link] = []
        self.plan = plan or StreamPlan(connections=1)
        self.emitted: list[bytes] = []
        self.turn: Callable[[], bool] = self.serve
        telling = Telling(self.emitted.append, replies=False)

        def make(now: int) -> Connection:
            return Connection(FramedSession(), None, self.plan.pipeline, self.plan.queries, now)

        self.pool = Pool(self.plan, 100 * MS, make, self.open, telling, lambda: self.now)
        self.sender = StreamSender(
            self.pool,
            telling,
            [OCTETS],
            iter([at * MS for at in times]),
            repeat(0),
            clock=lambda: self.now,
            wait=self.wait,
        )

    def open(self, connection: Connection) -> Link:
        self.links.append(Link(connection))
        return self.links[-1]

    def wait(self, nanoseconds: int) -> bool:
        assert nanoseconds >= 0
        self.now += MS
        return self.turn()

    def serve(self) -> bool:
        for link in self.links:
            if not link.connection.is_linked:
                self.pool.can_write(link.connection)
            for query in link.queries():
                link.given.append(frame(answer(query)))
                self.pool.can_read(link.connection)
        return True

    def outcomes(self) -> list[Outcome]:
        self.sender.run(BEGIN)
        found, self.counts = [], ConnectionsReport()
        for kind, content in Frames().feed(b"".join(self.emitted)):
            if kind == OUTCOMES:
                found += [Outcome(*each) for each in unpack_outcomes(content)]
            elif kind == CONNECTIONS:
                self.counts.add(content)
        return found


def times(outcomes: list[Outcome]) -> list[tuple[int, int, int]]:
    """Planned, sent and received in milliseconds from the begin, -1 for none."""
    return [
        ((each.planned - BEGIN) // MS, (each.sent - BEGIN) // MS, (each.received - BEGIN) // MS if each.received else -1)
        for each in outcomes
    ]  # fmt: skip


def test_all_are_sent_when_they_are_due() -> None:
    run = Run([0, 0, 5, 9])
    assert times(run.outcomes()) == [(0, 0, 1), (0, 0, 1), (5, 5, 6), (9, 9, 10)]
    assert (run.counts.opened, run.counts.ended) == (1, {"end of the run": 1})
    assert all(link.is_closed for link in run.links)


def test_a_wait_for_the_connection_is_latency_and_not_lateness() -> None:
    run = Run([0, 2])

    def turn() -> bool:
        return run.now < BEGIN + 40 * MS or run.serve()

    run.turn = turn
    assert times(run.outcomes()) == [(0, 0, 40), (2, 2, 40)]
    assert run.counts.slots.percentile(50) == 40_031  # the highest of its slot


def test_without_replies() -> None:
    run = Run([0, 30])
    run.turn = lambda: True
    found = run.outcomes()
    assert [each.received for each in found] == [LOST, LOST]
    assert (run.counts.opened, run.counts.not_opened) == (0, {"silent for the time-out": 1})


def test_the_sender_is_told_to_end() -> None:
    run = Run([0, 1000])
    run.turn = lambda: run.now < BEGIN + 10 * MS
    assert run.outcomes() == []
    assert run.now < BEGIN + 20 * MS
