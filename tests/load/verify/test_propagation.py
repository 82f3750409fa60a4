"""How a change showed, from scripted answers: the state is that of tests/load/verify/test_verifier.py, which changes at 10 and 20."""

from __future__ import annotations

import pytest

from hsdns.load.histogram import Percentile
from hsdns.load.outcome import REPLY
from hsdns.load.questions import Question
from hsdns.load.results import EventReport
from hsdns.load.schedule import SECOND
from hsdns.load.verify.follow import PROBE, PROBES, SERIES, Event, Probe
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.propagation import SETTLED, Propagation, Shown, propagation_report
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.verify.test_verifier import ONE, Said, reply

NAME = Name.from_text("web.shop.svc.cluster.local.")
QUESTIONS = [Question(NAME, RRType.A, "headless")]
NONE, SOME = Answer(0), Answer(0, frozenset({(1, b"a")}))


def shown(
    first_new: float | None = 0.002,
    last_old: float | None = 0.001,
    *,
    adds: bool = True,
    removes: bool = True,
    at: float = 100.5,
) -> Shown:
    event = Event(0, (b"shop", b"web"), 0, 1, at, NONE, SOME)
    event.adds, event.removes = adds, removes
    return Shown(event, at, -0.0001, first_new, last_old, 0.0015)


def test_additions_and_removals_are_told_apart() -> None:
    found = propagation_report(
        [
            shown(adds=True, removes=False),
            shown(None, None, adds=False, removes=True, at=100.6),
            shown(0.004, 0.003, at=100.7),
        ],
        QUESTIONS,
        5,
        100.0,
    )
    assert (found.followed, found.left_out, found.never_new, found.never_gone) == (5, 2, 0, 1)
    assert (found.first_new[0], found.first_new[-1]) == (Percentile("p50", 2000), Percentile("max", 4001))  # fmt: skip
    assert (found.last_old[0], found.last_old[-1]) == (Percentile("p50", 3001), Percentile("max", None, "never"))  # fmt: skip
    assert found.seen[0] == Percentile("p50", 0)
    assert found.events[0] == EventReport(0.5, NAME.to_text(), "A", True, False, 0, 2, 1, 1.5)
    assert (found.events[1].first_new_ms, found.events[1].last_old_ms) == (None, None)


SEEN = 10.0


class Servers:
    """Servers whose answers are told; `done` has what was said of settled changes."""

    def __init__(
        self, said: Said | None = None, servers: int = 1, written: float | None = None
    ) -> None:
        before, after = (
            Answer(0, frozenset({(RRType.A, bytes((10, 0, 0, each)))})) for each in (1, 2)
        )
        self.event = Event(0, (b"shop", b"web"), 0, 1, SEEN, before, after)
        self.event.written = written
        self.done: list[tuple[int, int]] = []
        self.propagation = Propagation(
            said or Said(),
            [ONE.query()],
            [self.event],
            servers,
            0.1,
            lambda *each: self.done.append(each),
        )
        for address in range(1, 10):
            content = address.to_bytes(4, "big") + b"\0\0\0\0" + reply(address)
            self.propagation.take(REPLY, content)

    def say(
        self, address: int, ms: int, *, takes: int = 1, server: int = 0, rcode: int = 0
    ) -> None:
        """A query at so many milliseconds after the change was seen, and what it was answered."""
        sent = round(SEEN * SECOND) + ms * 1_000_000
        probe = Probe(0, server, 0x8400 | rcode, address, sent, sent + takes * 1_000_000)
        self.propagation.take(PROBES, PROBE.pack(*probe))

    def shown(self, end: float = 19.0, server: int = 0) -> Shown:
        (found,) = self.propagation.shown(server, 0.0, end)
        return found


def ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 6)


@pytest.mark.parametrize(
    ("answers", "first_new", "last_old", "resolution"),
    [
        ([(1, 0), (1, 1), (2, 2), (2, 3)], 3, 2, 2),
        ([(2, 0), (2, 1)], 1, 0, 1),
        ([(1, 0), (2, 5), (1, 10), (2, 20)], 6, 11, 6),  # two replicas behind one address
        ([(1, 0), (1, 5)], None, None, 0),
        ([(1, 0), (2, 5), (1, 9)], 6, None, 6),
        ([(1, 0), (9, 2), (2, 5)], 6, 1, 6),  # what was never true says nothing
        ([(1, 0), (3, 5)], 6, None, 6),  # a state after the next change
    ],
)
def test_first_new_and_last_old(
    answers: list[tuple[int, int]],
    first_new: float | None,
    last_old: float | None,
    resolution: float,
) -> None:
    servers = Servers()
    for address, at in answers:
        servers.say(address, at)
    if answers == [(1, 0), (3, 5)]:
        servers.say(3, 6)
        last_old = 1
    found = servers.shown()
    assert (ms(found.first_new), ms(found.last_old), ms(found.resolution)) == (
        first_new,
        last_old,
        resolution,
    )
    assert (found.at, found.seen) == (SEEN, 0)


def test_times_run_from_when_it_was_written() -> None:
    servers = Servers(written=SEEN - 0.5)
    servers.say(1, 0)
    servers.say(2, 2)
    found = servers.shown()
    assert (found.at, ms(found.seen), ms(found.first_new), ms(found.last_old)) == (
        9.5,
        500,
        503,
        501,
    )


@pytest.mark.parametrize("rcode", [2, 5])
def test_errors_say_nothing(rcode: int) -> None:
    servers = Servers()
    servers.say(1, 0)
    servers.say(2, 1, rcode=rcode)
    assert servers.shown().first_new is None


def test_a_server_that_says_nothing() -> None:
    servers = Servers()
    servers.say(9, 1)
    assert servers.propagation.shown(0, 0.0, 19.0) == []


def test_each_server_has_its_own() -> None:
    servers = Servers(servers=2)
    servers.say(2, 1, server=0)
    servers.say(1, 1, server=1)
    servers.say(2, 5, server=1)
    assert [ms(servers.shown(server=each).first_new) for each in (0, 1)] == [2, 6]


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
    assert servers.propagation.shown(0, 0.0, 19.0) == []
    late = Servers(Back(12.0))
    late.say(2, 1)
    late.say(1, 1950)  # within the slack of the change back
    assert ms(late.shown().last_old) == 0


@pytest.mark.parametrize(("begin", "end"), [(10.1, 19.0), (0.0, 10.9)])
def test_what_was_not_followed_for_long_enough_is_left_out(begin: float, end: float) -> None:
    servers = Servers()
    servers.say(2, 1)
    assert servers.propagation.shown(0, begin, end) == []


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
