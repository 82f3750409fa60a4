"""Which changes are followed, with probes on a clock that only waiting moves, and how a change showed, from scripted answers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from hsdns.load.histogram import Percentile
from hsdns.load.outcome import REPLY, Frames
from hsdns.load.results import EventReport, PropagationReport
from hsdns.load.schedule import SECOND
from hsdns.load.send.loop import Query, Ready
from hsdns.load.verify.follow import PROBE, PROBES, SERIES, Command, Event, Follower, Probe, Prober
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.propagation import SETTLED, Propagation
from hsdns.wire.iana import RRType
from tests.load.verify.test_verifier import ONE, Said, reply
from tests.support.tables import columns

TABLES = Path(__file__).parents[1] / "tables.txt"
WEB, DB = (b"shop", b"web"), (b"shop", b"db")
COST = len(SERIES)
Answers = list[Answer | None]


def addresses(*last: int) -> Answer:
    return Answer(0, frozenset((RRType.A, bytes((10, 0, 0, each))) for each in last))


class Cluster:
    """A follower of questions about a Service, which have these answers in state 0, 1, 2 ...; `works`: the prober."""

    def __init__(self, *answers: Answers, rate: float = 1000.0) -> None:
        self.now = 0.0
        self.works = True

        def expected(question: int, state: int) -> Answer | None:
            return answers[question][state]

        questions = {WEB: range(len(answers))}
        self.follower = Follower(
            expected, questions, rate, lambda event: self.works, lambda: self.now
        )

    def changed(self, state: int, now: float, version: str = "") -> list[Event]:
        """Change the Service; return all changes that are followed."""
        self.now = now
        self.follower.changed(WEB, state, now, version or str(state))
        return self.follower.events


def test_the_question_whose_answer_changes_is_asked() -> None:
    same = addresses(1)
    cluster = Cluster([same, same], [None, same], [same, addresses(1, 2)])
    assert cluster.changed(1, 5.0) == [Event(0, WEB, 2, 1, 5.0, True, False)]
    cluster.follower.changed(DB, 1, 5.0, "8")
    assert len(cluster.follower.events) == 1
    assert Cluster([same, same]).changed(1, 5.0) == []


MANY: Answers = [addresses(each) for each in range(200)]


def test_the_rate_is_never_exceeded() -> None:
    cluster = Cluster(MANY, rate=COST / 2)
    for state in range(1, 101):
        cluster.changed(state, state / 10)
    assert [each.seen for each in cluster.follower.events] == [0.1, 2.1, 4.1, 6.1, 8.1]


def test_probes_that_are_given_back_follow_another_change() -> None:
    cluster = Cluster(MANY, rate=0.001)
    cluster.works = False
    assert cluster.changed(1, 1.0) == []  # a prober that takes nothing costs nothing
    cluster.works = True
    for state, back in ((2, 0), (3, COST - 5), (4, 5), (5, 0)):
        cluster.changed(state, 1.0)
        cluster.follower.done(back)
    assert [(each.number, each.state) for each in cluster.follower.events] == [(0, 2), (1, 5)]


def test_when_it_was_written_is_told_before_or_after() -> None:
    cluster = Cluster(MANY)
    cluster.changed(1, 5.0)
    cluster.follower.written("1", 4.5)
    cluster.follower.written("2", 5.5)
    cluster.changed(2, 6.0)
    assert [each.written for each in cluster.changed(3, 7.0)] == [4.5, 5.5, None]


MS = 1_000_000
QUERIES = [b"\1\0\0\1\0\0\0\0\0\0\1a\4test\0\0\1\0\1", b"\1\0\0\1\0\0\0\0\0\0\1b\4test\0\0\1\0\1"]


class Server:
    """A transport to a server that answers with the query at once; one that is `full` answers nothing."""

    turn, waits = 1, 0

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.sent: list[bytes] = []
        self.is_full = False

    def ask(self, query: Query) -> None:
        self.sent.append(query.octets)
        if not self.is_full:
            message = b"\0\0\x84\0" + query.octets[2:]
            self.machine.prober.ended(query, message, self.machine.now)

    def flush(self) -> None:
        pass

    def expire(self, now: int) -> None:
        pass

    def close(self) -> None:
        pass


class Machine:
    """A clock, servers, and commands by the time at which they come."""

    def __init__(self, commands: dict[int, Command], end: int, servers: int = 1) -> None:
        self.now = 0
        self.commands = commands
        self.end = end
        self.emitted: list[tuple[bytes, bytes]] = []
        frames = Frames()
        self.prober = Prober(
            queries=QUERIES,
            clock=lambda: self.now,
            wait=self.wait,
            emit=lambda octets: self.emitted.extend(frames.feed(octets)),
        )
        self.servers = [Server(self) for _ in range(servers)]
        self.prober.transports = self.servers

    def wait(self, nanoseconds: int) -> Ready:
        if self.now >= self.end:
            return None
        self.now = min(self.now + max(nanoseconds, 1), *self.commands, self.end)
        if self.now in self.commands:
            self.prober.obey(self.commands.pop(self.now))
        return ()

    def probes(self, server: int = 0) -> list[float]:
        """When a server was asked about change 0, in milliseconds."""
        self.prober.loop()
        found = [Probe(*each) for kind, content in self.emitted if kind == PROBES for each in PROBE.iter_unpack(content)]  # fmt: skip
        assert {(each.event, each.flags, each.received - each.sent) for each in found} <= {(0, 0x8400, 0)}  # fmt: skip
        return [each.sent / MS for each in found if each.server == server]


@pytest.mark.parametrize(
    ("commands", "end", "asked"),
    [
        ({5 * MS: Command(1, 0, 1, 5 * MS)}, 105, [5 + each / MS for each in SERIES if each < 100 * MS]),
        # All have shown it.
        ({MS: Command(1, 0, 0, MS), 7 * MS + 1: Command(0, 0)}, 90, [1, 2, 3, 4, 5, 6, 7]),
        # What is past already is left out.
        ({20 * MS: Command(1, 0, 0, 0)}, 30, [20, SERIES[14] / MS]),
    ],
)  # fmt: skip
def test_all_servers_are_asked_at_the_times_of_the_series(
    commands: dict[int, Command], end: int, asked: list[float]
) -> None:
    """A server that cannot be asked does not stop the others; a reply is told once."""
    (question,) = (each.question for each in commands.values() if each.follows)
    machine = Machine(commands, end * MS, servers=3)
    machine.servers[1].is_full = True
    assert machine.probes(0) == pytest.approx(asked)
    assert [len(each.sent) for each in machine.servers] == [len(asked)] * 3
    assert (machine.probes(1), machine.probes(2)) == ([], machine.probes(0))
    assert {each for server in machine.servers for each in server.sent} == {QUERIES[question]}
    replies = [content for kind, content in machine.emitted if kind == REPLY]
    assert replies == [bytes(8) + b"\x84\0" + QUERIES[question][2:]]


def test_the_series() -> None:
    assert SERIES[:3] == (0, MS, 2 * MS)
    assert SERIES[-1] >= 60_000 * MS
    growth = [after / before for before, after in pairwise(SERIES[10:])]
    assert all(each == pytest.approx(1.25, rel=1e-3) for each in growth)


# --- how a change showed: the state is that of Said, which changes at 10 and 20 ---


def shown(
    first_new: float | None = 0.002,
    last_old: float | None = 0.001,
    *,
    adds: bool = True,
    removes: bool = True,
    at: float = 100.5,
) -> EventReport:
    """How a change showed in a run that began at 100; times in seconds."""
    new, old = (None if each is None else each * 1000 for each in (first_new, last_old))
    return EventReport(at - 100, "web.shop.svc.cluster.local.", "A", adds, removes, 0.0, new, old, 1.5)  # fmt: skip


def test_additions_and_removals_are_told_apart() -> None:
    events = [
        shown(removes=False),
        shown(None, None, adds=False, at=100.6),
        shown(0.004, 0.003, at=100.7),
    ]
    found = PropagationReport.of(events, 5)
    assert (found.followed, found.left_out, found.never_new, found.never_gone) == (5, 2, 0, 1)
    assert [(each[0], each[-1]) for each in (found.first_new, found.last_old, found.seen)] == [
        (Percentile("p50", 2000), Percentile("max", 4001)),
        (Percentile("p50", 3001), Percentile("max", None, "never")),
        (Percentile("p50", 0), Percentile("max", 0)),
    ]


SEEN = 10.0


class Servers:
    """Servers whose answers are told; `done` has what was said of settled changes."""

    def __init__(
        self, said: Said | None = None, servers: int = 1, written: float | None = None
    ) -> None:
        self.done: list[tuple[int, int]] = []
        self.propagation = Propagation(
            said or Said(),
            [ONE.query()],
            [Event(0, (b"shop", b"web"), 0, 1, SEEN, True, True, written)],
            servers,
            0.1,
            lambda *each: self.done.append(each),
        )
        for address in range(1, 10):
            content = address.to_bytes(4, "big") + b"\0\0\0\0" + reply(address)
            self.propagation.take(REPLY, content)

    def say(self, address: int, ms: int, *, server: int = 0, rcode: int = 0) -> None:
        """A query at so many milliseconds after the change was seen, and what it was answered a millisecond later."""
        sent = round(SEEN * SECOND) + ms * 1_000_000
        probe = Probe(0, server, 0x8500 | rcode, address, sent, sent + 1_000_000)
        self.propagation.take(PROBES, PROBE.pack(*probe))

    def shown(self, server: int = 0, begin: float = 0.0, end: float = 19.0) -> list[EventReport]:
        return self.propagation.report(server, begin, end).events


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "answers at milliseconds after a change, and when the first new and the last old one came, and how finely that is known"))  # fmt: skip
def test_first_new_and_last_old(given: str, expected: str) -> None:
    """Of two servers; times run from when the change was written, if that is known."""
    first_new, last_old, resolution = (
        None if each == "-" else int(each) for each in expected.split()
    )
    answers = [tuple(map(int, each.split("@"))) for each in given.split()]
    servers, later = Servers(servers=2), Servers(written=SEEN - 0.5)
    for address, at in answers:
        servers.say(address, at, server=1)
        servers.say(9, at, server=0)
        later.say(address, at)
    name = ONE.name.to_text()
    assert resolution is not None
    event = EventReport(SEEN, name, "A", True, True, 0, first_new, last_old, resolution)
    assert (servers.shown(0), servers.shown(1)) == ([], [event])
    (found,) = later.shown()
    assert (found.at_s, found.seen_ms) == (9.5, 500)
    assert found.first_new_ms == (None if first_new is None else first_new + 500)


@pytest.mark.parametrize("rcode", [2, 5])
def test_errors_say_nothing(rcode: int) -> None:
    servers = Servers()
    servers.say(1, 0)
    servers.say(2, 1, rcode=rcode)
    assert [each.first_new_ms for each in servers.shown()] == [None]


def test_a_change_that_was_taken_back_soon_is_left_out() -> None:
    class Back(Said):
        """Address 1 again from 10.5 on."""

        def __init__(self, back: float) -> None:
            super().__init__()
            self.since = [float("-inf"), 10.0, back]

        def expected(self, question: int, state: int) -> Answer | None:
            return super().expected(question, state % 2)

    servers = Servers(Back(10.5))
    servers.say(2, 1)
    assert servers.shown() == []
    unseen = Servers(Back(12.0))
    unseen.say(2, 1950)
    assert unseen.shown() == []
    late = Servers(Back(12.0))
    late.say(2, 1)
    late.say(1, 1950)  # within the slack of the change back
    assert [each.last_old_ms for each in late.shown()] == [0]


@pytest.mark.parametrize(
    ("begin", "end", "followed"), [(10.1, 19.0, 0), (0.0, 10.9, 1), (0.0, 9.9, 0)]
)
def test_what_was_not_followed_for_long_enough_is_left_out(
    begin: float, end: float, followed: int
) -> None:
    servers = Servers()
    servers.say(2, 1)
    found = servers.propagation.report(0, begin, end)
    assert (found.events, found.followed, found.left_out) == ([], followed, followed)


def test_a_change_that_all_have_shown_is_done() -> None:
    servers = Servers(servers=2)
    for at in range(SETTLED):
        servers.say(2, at, server=0)
        servers.say(1 if at == 3 else 2, at, server=1)
    assert servers.done == []
    for at in range(SETTLED, SETTLED + 4):
        servers.say(2, at, server=1)
    asked = sum(each <= (SETTLED + 3) * 1_000_000 for each in SERIES)
    assert servers.done == [(0, len(SERIES) - asked)]
