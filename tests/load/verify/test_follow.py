"""Probes on a clock that only waiting moves, to servers that answer at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest

from hsdns.load.outcome import REPLY, Frames
from hsdns.load.send.loop import Ready, Receiver
from hsdns.load.send.udp import UdpTransport
from hsdns.load.verify.follow import (
    PORTS,
    PROBE,
    PROBES,
    SERIES,
    TIMEOUT,
    Command,
    Event,
    Follower,
    Probe,
    Prober,
)
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.prober_process import ProberProcess
from hsdns.wire.iana import RRType
from tests.load.send.test_process import QUERY
from tests.load.servers import answer, server

WEB, DB = (b"shop", b"web"), (b"shop", b"db")
COST = len(SERIES)


def addresses(*last: int) -> Answer:
    return Answer(0, frozenset((RRType.A, bytes((10, 0, 0, each))) for each in last))


class Said:
    """What each question has as its answer in state 0, 1, 2 ..."""

    def __init__(self, *answers: list[Answer | None]) -> None:
        self.answers = answers

    def expected(self, question: int, state: int) -> Answer | None:
        return self.answers[question][state]


class Cluster:
    """A follower of questions about a Service, with a clock and a prober that can be out of order."""

    def __init__(self, *answers: list[Answer | None], rate: float = 1.0) -> None:
        self.now = 0.0
        self.asked: list[Event] = []
        self.works = True
        questions = {WEB: range(len(answers))}
        self.follower = Follower(
            Said(*answers).expected, questions, rate, self.ask, lambda: self.now
        )

    def ask(self, event: Event) -> bool:
        if self.works:
            self.asked.append(event)
        return self.works


def test_the_question_whose_answer_changes_is_asked() -> None:
    same = addresses(1)
    cluster = Cluster([same, same], [None, same], [same, addresses(1, 2)])
    cluster.follower.changed(WEB, 1, 5.0, "7")
    (event,) = cluster.asked
    assert (event.number, event.key, event.question, event.state, event.seen, event.written) == (0, WEB, 2, 1, 5.0, None)  # fmt: skip
    assert cluster.follower.events == [event]


def test_what_no_question_shows_is_not_followed() -> None:
    same = addresses(1)
    cluster = Cluster([same, same])
    cluster.follower.changed(WEB, 1, 5.0, "7")
    cluster.follower.changed(DB, 1, 5.0, "8")
    assert cluster.asked == cluster.follower.events == []


def test_what_a_change_adds_and_removes() -> None:
    gone = Answer(3)
    states: list[Answer | None] = [addresses(1), addresses(1, 2), addresses(2), addresses(3), gone, addresses(1)]  # fmt: skip
    cluster = Cluster(states, rate=1000.0)
    for state in range(1, len(states)):
        cluster.now += 1
        cluster.follower.changed(WEB, state, 5.0, str(state))
    assert [(each.adds, each.removes) for each in cluster.asked] == [
        (True, False),
        (False, True),
        (True, True),
        (False, True),
        (True, False),
    ]


def test_the_rate_is_never_exceeded() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(200)]
    cluster = Cluster(states, rate=COST / 2)
    for state in range(1, 101):
        cluster.now = state / 10
        cluster.follower.changed(WEB, state, cluster.now, str(state))
    assert [each.seen for each in cluster.asked] == [0.1, 2.1, 4.1, 6.1, 8.1]


def test_probes_that_are_given_back_follow_another_change() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(9)]
    cluster = Cluster(states, rate=0.001)
    cluster.follower.changed(WEB, 1, 1.0, "1")
    cluster.follower.changed(WEB, 2, 1.0, "2")
    assert len(cluster.asked) == 1
    cluster.follower.done(COST - 5)
    cluster.follower.changed(WEB, 3, 1.0, "3")
    assert len(cluster.asked) == 1
    cluster.follower.done(5)
    cluster.follower.changed(WEB, 4, 1.0, "4")
    assert [each.state for each in cluster.asked] == [1, 4]


def test_a_prober_that_takes_nothing() -> None:
    cluster = Cluster([addresses(1), addresses(2), addresses(3)])
    cluster.works = False
    cluster.follower.changed(WEB, 1, 1.0, "1")
    assert cluster.follower.events == []
    cluster.works = True
    cluster.follower.changed(WEB, 2, 1.0, "2")
    assert [each.number for each in cluster.follower.events] == [0]


def test_when_it_was_written_is_told_before_or_after() -> None:
    states: list[Answer | None] = [addresses(each) for each in range(4)]
    cluster = Cluster(states, rate=1000.0)
    follower = cluster.follower
    follower.changed(WEB, 1, 5.0, "1")
    follower.written("1", 4.5)
    follower.written("2", 5.5)
    follower.changed(WEB, 2, 6.0, "2")
    follower.changed(WEB, 3, 7.0, "3")
    assert [each.written for each in follower.events] == [4.5, 5.5, None]


MS = 1_000_000
QUERIES = [b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1", b"\1\0\0\1\0\0\0\0\0\0\1b\4test\0\0\1\0\1"]


class Socket:
    """A server that answers with the query; it takes nothing if it is `full`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.waiting: list[bytes] = []
        self.full = False

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        if self.full:
            return range(len(datagrams))
        self.sent += datagrams
        self.waiting += [each[:2] + b"\x84\0" + each[4:] for each in datagrams]
        return ()

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        found, self.waiting = self.waiting, []
        return [(octets, 0) for octets in found], False


class Machine:
    """A clock, the sockets of `servers` servers, and commands by the time at which they come."""

    def __init__(self, servers: int, commands: dict[int, Command], end: int) -> None:
        self.now = 0
        self.sockets = [[Socket() for _ in range(PORTS)] for _ in range(servers)]
        self.transports: list[UdpTransport] = []
        self.commands = commands
        self.end = end
        self.emitted: list[tuple[bytes, bytes]] = []
        frames = Frames()
        self.prober = Prober(
            [partial(self.open, sockets) for sockets in self.sockets],
            QUERIES,
            clock=lambda: self.now,
            wait=self.wait,
            emit=lambda octets: self.emitted.extend(frames.feed(octets)),
        )

    def open(self, sockets: Sequence[Socket], receiver: Receiver) -> UdpTransport:
        self.transports.append(UdpTransport(sockets, TIMEOUT, receiver, lambda: self.now, run=1))
        return self.transports[-1]

    def wait(self, nanoseconds: int) -> Ready:
        ready = [
            partial(transport.receive, number)
            for transport, sockets in zip(self.transports, self.sockets, strict=True)
            for number, each in enumerate(sockets)
            if each.waiting
        ]
        if ready:
            return ready
        self.now = min(self.now + max(nanoseconds, 1), *self.commands, self.end)
        if self.now >= self.end:
            return None
        found = self.commands.pop(self.now, None)
        if found is not None:
            self.prober.obey(found)
        return ()

    def probes(self, server: int) -> list[tuple[int, int, int]]:
        """Event, and when it was asked for and answered, in milliseconds."""
        return [
            (each.event, each.sent // MS, each.received // MS)
            for kind, content in self.emitted
            if kind == PROBES
            for each in map(Probe._make, PROBE.iter_unpack(content))
            if each.server == server
        ]


def test_all_servers_are_asked_at_the_times_of_the_series() -> None:
    seen = 5 * MS
    machine = Machine(2, {seen: Command(1, 0, 1, seen)}, seen + 100 * MS)
    machine.prober.loop()
    times = [(0, (seen + each) // MS, (seen + each) // MS) for each in SERIES if each < 100 * MS]
    assert machine.probes(0) == machine.probes(1) == times
    assert len(times) == 21
    assert {each[2:] for sockets in machine.sockets for one in sockets for each in one.sent} == {
        QUERIES[1]
    }
    assert all(one.sent for sockets in machine.sockets for one in sockets)  # each port takes part


def test_a_reply_is_told_once() -> None:
    machine = Machine(1, {MS: Command(1, 0, 0, MS)}, 50 * MS)
    machine.prober.loop()
    replies = [content for kind, content in machine.emitted if kind == REPLY]
    assert replies == [b"\0\0\0\0" + b"\0\0\0\0" + b"\x84\0" + QUERIES[0][2:]]


def test_a_change_that_all_have_shown() -> None:
    commands = {MS: Command(1, 0, 0, MS), 7 * MS + 1: Command(0, 0)}
    machine = Machine(1, commands, 90 * MS)
    machine.prober.loop()
    assert [sent for _, sent, _ in machine.probes(0)] == [1, 2, 3, 4, 5, 6, 7]


def test_what_is_past_already_is_left_out() -> None:
    machine = Machine(1, {20 * MS: Command(1, 0, 0, 0)}, 30 * MS)
    machine.prober.loop()
    assert [sent for _, sent, _ in machine.probes(0)] == [20, 24]


def test_a_server_that_cannot_be_asked_does_not_stop_the_others() -> None:
    machine = Machine(2, {MS: Command(1, 0, 0, MS)}, 10 * MS)
    for each in machine.sockets[0]:
        each.full = True
    machine.prober.loop()
    assert (len(machine.probes(0)), len(machine.probes(1))) == (0, 9)


@pytest.mark.parametrize("octets", [b"", b"\0\1short", b"\xff\xff" + b"\0" * 12])
def test_what_is_no_answer(octets: bytes) -> None:
    machine = Machine(1, {}, 10 * MS)
    machine.sockets[0][0].waiting = [octets]
    machine.prober.loop()
    assert machine.emitted == []


def test_the_series() -> None:
    assert SERIES[:3] == (0, MS, 2 * MS)
    assert SERIES[-1] >= 60_000 * MS
    growth = [after / before for before, after in pairwise(SERIES[10:])]
    assert all(each == pytest.approx(1.25, rel=1e-3) for each in growth)


@pytest.mark.sockets
@pytest.mark.slow
def test_a_change_is_followed_at_two_servers() -> None:
    with server() as port, server() as other:
        places = [(socket.AF_INET, ("127.0.0.1", each)) for each in (port, other)]
        with ProberProcess(places, [QUERY]) as process:
            event = Event(3, (b"ns", b"svc"), 0, 1, time.monotonic(), Answer(0), Answer(3))
            assert process.follow(event)
            probes: list[Probe] = []
            replies = []
            while {each.server for each in probes} != {0, 1}:
                for kind, content in process.messages(10.0):
                    if kind == PROBES:
                        probes += map(Probe._make, PROBE.iter_unpack(content))
                    elif kind == REPLY:
                        replies.append(content)
            process.done(3)
    assert {(each.event, each.flags, each.reply) for each in probes} == {(3, 0x8400, 0)}
    assert all(each.sent < each.received for each in probes)
    assert replies == [b"\0\0\0\0" + b"\0\0\0\3" + answer(b"\0\0" + QUERY)[2:]]


@pytest.mark.sockets
@pytest.mark.slow
def test_without_changes_nothing_is_asked() -> None:
    with ProberProcess([], []) as process:
        assert list(process.messages(0)) == []
