"""How a change showed, from scripted answers: the state is that of tests/load/verify/test_verifier.py, which changes at 10 and 20."""

from __future__ import annotations

import pytest

from hsdns.load.histogram import Percentile
from hsdns.load.outcome import REPLY
from hsdns.load.results import EventReport, PropagationReport
from hsdns.load.schedule import SECOND
from hsdns.load.verify.follow import PROBE, PROBES, SERIES, Event, Probe
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.propagation import SETTLED, Propagation
from tests.load.verify.test_verifier import ONE, Said, reply


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
        probe = Probe(0, server, 0x8400 | rcode, address, sent, sent + 1_000_000)
        self.propagation.take(PROBES, PROBE.pack(*probe))

    def shown(self, server: int = 0, begin: float = 0.0, end: float = 19.0) -> list[EventReport]:
        return self.propagation.report(server, begin, end).events


@pytest.mark.parametrize(
    ("answers", "first_new", "last_old", "resolution"),
    [
        ([(1, 0), (1, 1), (2, 2), (2, 3)], 3, 2, 2),
        ([(2, 0), (2, 1)], 1, 0, 1),
        ([(1, 0), (2, 5), (1, 10), (2, 20)], 6, 11, 6),  # two replicas behind one address
        ([(1, 0), (1, 5)], None, None, 0),
        ([(1, 0), (2, 5), (1, 9)], 6, None, 6),
        ([(1, 0), (9, 2), (2, 5)], 6, 1, 6),  # what was never true says nothing
        ([(1, 0), (3, 5)], 6, 1, 6),  # a state after the next change
    ],
)
def test_first_new_and_last_old(
    answers: list[tuple[int, int]],
    first_new: float | None,
    last_old: float | None,
    resolution: float,
) -> None:
    """Of two servers; times run from when the change was written, if that is known."""
    servers, later = Servers(servers=2), Servers(written=SEEN - 0.5)
    for address, at in answers:
        servers.say(address, at, server=1)
        servers.say(9, at, server=0)
        later.say(address, at)
    name = ONE.name.to_text()
    expected = EventReport(SEEN, name, "A", True, True, 0, first_new, last_old, resolution)
    assert (servers.shown(0), servers.shown(1)) == ([], [expected])
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
