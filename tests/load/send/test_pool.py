"""Connections with peers that are slow, half-open, reset, close early, answer out of order, wrongly or with garbage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.outcome import CLOSED, IDLE, RESET, SILENT, SPENT
from hsdns.load.plan import StreamPlan
from hsdns.load.send.connection import TRIES
from hsdns.wire.framing import frame
from tests.load.stream_peers import MS, Scene, answer
from tests.support.effort import tries

OPENED = ("opened", "")
AGAIN = ("again", "")


def scene(connections: int = 1, pipeline: int = 100, queries: int = 0, idle: int = -1) -> Scene:
    plan = StreamPlan(connections=connections, pipeline=pipeline, queries=queries, idle=idle)
    return Scene(plan)


def test_one_connection_for_all() -> None:
    found = scene()
    found.ask(1, 2)
    assert len(found.links) == 1
    assert not found.links[0].sent
    found.connect(0)
    found.reply_to(0)
    found.ask(3)
    found.reply_to(0)
    assert found.take() == [OPENED, (1, "answered"), (2, "answered"), (3, "answered")]
    assert found.pool.waits == 0
    found.pool.close()
    assert found.take() == [("ended", "end of the run")]
    assert found.links[0].is_closed


def test_they_are_asked_in_turn() -> None:
    found = scene(3)
    found.ask(*range(7))
    found.connect(0, 1, 2)
    assert [len(link.queries()) for link in found.links] == [3, 2, 2]


def test_the_set_up_is_measured_from_the_wish() -> None:
    found = scene()
    found.ask(1)
    found.now += 3 * MS
    found.connect(0)
    assert found.counts.slots.pairs() == [(1024 + 3000 // 2, 1)]


def test_the_pipeline_is_bounded() -> None:
    found = scene(pipeline=2)
    found.ask(1, 2, 3, 4)
    found.connect(0)
    assert len(found.links[0].queries()) == 2
    found.give(0, frame(answer(b"\0\1" + bytes(10))))  # the second one
    assert len(found.links[0].queries()) == 1
    assert found.take() == [OPENED, (2, "answered")]
    assert found.pool.waits == 3


def test_a_new_connection_for_each() -> None:
    found = scene(2, queries=1)
    found.ask(1, 2, 3)
    assert len(found.links) == 2
    found.connect(0, 1)
    found.reply_to(1)
    assert found.take() == [OPENED, OPENED, ("ended", SPENT), (2, "answered")]
    assert len(found.links) == 3
    found.connect(2)
    found.reply_to(0)
    found.reply_to(2)
    assert [each for each in found.take() if each[1] == "answered"] == [(1, "answered"), (3, "answered")]  # fmt: skip
    assert [link.is_closed for link in found.links] == [True] * 3


def test_a_spent_connection_stays_for_its_idle_time() -> None:
    found = scene(1, queries=2, idle=500 * MS)
    found.ask(1, 2)
    found.connect(0)
    found.reply_to(0)
    found.ask(3)
    assert (len(found.links), found.links[0].is_closed) == (2, False)
    found.connect(1)
    found.pass_time(499)
    assert not found.links[0].is_closed
    found.pass_time(1)
    assert ("ended", SPENT) in found.take()


def test_an_idle_connection_is_closed() -> None:
    found = scene(1, idle=500 * MS)
    found.ask(1)
    found.connect(0)
    found.reply_to(0)
    found.pass_time(400)
    found.ask(2)
    found.reply_to(0)
    found.pass_time(499)
    assert not found.links[0].is_closed
    found.pass_time(1)
    assert found.take() == [OPENED, ("ended", IDLE), (1, "answered"), (2, "answered")]
    found.ask(3)
    assert len(found.links) == 2


def test_it_stays_open_while_it_has_queries_left() -> None:
    found = scene(1, queries=5)
    found.ask(1)
    found.connect(0)
    found.reply_to(0)
    found.pass_time(60_000)
    assert not found.links[0].is_closed


def test_refused() -> None:
    found = scene()
    found.ask(1, 2)
    found.links[0].refuses = "connection refused"
    found.connect(0)
    assert found.take() == [("not opened", "connection refused"), (1, "lost"), (2, "lost")]
    found.ask(3)
    assert len(found.links) == 2


def test_this_machine_has_no_more() -> None:
    found = Scene(StreamPlan(), lacks=True)
    found.ask(1, 2)
    assert found.take() == [(1, "not sent"), (2, "not sent")]
    assert found.pool.waits == 0


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b"", CLOSED),
        (ConnectionResetError(104, "Connection reset by peer"), RESET),
        (TimeoutError(110, "Connection timed out"), "Connection timed out"),
    ],
)
def test_an_end_in_the_middle(end: bytes | OSError, why: str) -> None:
    """What has no reply is asked again over another connection, with its first time."""
    found = scene()
    found.ask(1, 2, 3)
    found.connect(0)
    found.reply_to(0, 1)
    found.give(0, end)
    assert found.take() == [OPENED, ("ended", why), AGAIN, AGAIN, (2, "answered")]
    found.connect(1)
    found.reply_to(1)
    assert found.take() == [OPENED, (1, "answered"), (3, "answered")]


def test_closed_after_each_query() -> None:
    found = scene(1)
    found.ask(1, 2, 3)
    for at in range(3):
        found.connect(at)
        found.reply_to(at, 0)
        found.give(at, b"")
    assert [each for each in found.take() if each[1] == "answered"] == [(1, "answered"), (2, "answered"), (3, "answered")]  # fmt: skip


def test_asked_again_a_few_times_at_most() -> None:
    found = scene()
    found.ask(1)
    for at in range(TRIES):
        found.connect(at)
        found.give(at, b"")
    assert found.take()[-1] == (1, "lost")
    assert (len(found.links), found.pool.waits) == (TRIES, 0)


def test_half_open() -> None:
    """A server that says nothing more is left after the time-out, and its other queries go elsewhere."""
    found = scene()
    found.ask(1)
    found.connect(0)
    found.pass_time(1000)
    found.ask(2)
    found.pass_time(1000)
    assert found.take() == [OPENED, ("ended", SILENT), AGAIN, (1, "lost")]
    found.connect(1)
    found.reply_to(1)
    assert found.take() == [OPENED, (2, "answered")]


def test_a_set_up_without_end() -> None:
    found = scene()
    found.ask(1, 2)
    found.pass_time(2000)
    assert found.take() == [("not opened", SILENT), (1, "lost"), (2, "lost")]


def test_one_lost_query_ends_no_connection_that_answers() -> None:
    found = scene()
    found.ask(1)
    found.connect(0)
    found.pass_time(10)
    found.ask(2)
    found.reply_to(0, 1)
    found.pass_time(2000)
    assert found.take() == [OPENED, (2, "answered"), (1, "lost")]
    assert not found.links[0].is_closed
    found.give(0, frame(answer(bytes(12))))
    assert found.take() == [("late", "")]


def test_a_wrong_id_and_a_reply_twice() -> None:
    found = scene()
    found.ask(1)
    found.connect(0)
    (query,) = found.links[0].queries()
    found.give(0, frame(b"\7\7" + query[2:]), frame(answer(query)), frame(answer(query)))
    assert found.take() == [OPENED, ("late", ""), ("late", ""), (1, "answered")]


def test_garbage() -> None:
    found = scene()
    found.ask(1)
    found.connect(0)
    found.give(0, b"\0\2no")
    assert found.take() == [OPENED, ("ended", "sends what is no DNS message"), AGAIN]


def test_a_slow_server_takes_octets_when_it_can() -> None:
    found = scene()
    found.ask(1, 2)
    link = found.links[0]
    link.room = 30
    found.connect(0)
    assert (link.watches, len(link.sent)) == (True, 30)
    link.room = 1000
    found.pool.can_write(link.connection)
    assert (link.watches, len(link.queries())) == (False, 2)


def test_what_waits_for_room_is_lost_in_time() -> None:
    found = scene(1, pipeline=1)
    found.ask(1)
    found.connect(0)
    found.pass_time(1500)
    found.ask(2)
    found.reply_to(0)
    found.pass_time(1900)
    found.ask(3)
    found.pass_time(100)
    assert found.take() == [OPENED, ("ended", SILENT), (1, "answered"), (2, "lost")]


@settings(max_examples=tries(30))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ask", "connect", "reply", "end", "reset", "time", "refuse"]), st.integers(0, 5)),
        max_size=40,
    ),
    connections=st.integers(1, 3),
    pipeline=st.integers(1, 3),
    queries=st.integers(0, 3),
    idle=st.sampled_from([-1, 0, 300 * MS]),
)  # fmt: skip
def test_every_query_ends_once(
    steps: list[tuple[str, int]], connections: int, pipeline: int, queries: int, idle: int
) -> None:
    found = scene(connections, pipeline, queries, idle)
    asked = 0
    for word, number in steps:
        link = number % max(1, len(found.links))
        if word == "ask":
            found.ask(*range(asked, asked + number))
            asked += number
        elif word == "time":
            found.pass_time(number * 250)
        elif not found.links:
            continue
        elif word == "connect":
            found.connect(link)
        elif word == "reply":
            found.reply_to(link)
        elif word == "refuse":
            found.links[link].refuses = "connection refused"
        else:
            found.give(link, b"" if word == "end" else ConnectionResetError(104, "reset"))
        is_open = [each for each in found.links if not each.is_closed]
        if idle <= 0 or not queries:
            # One that has had all its queries is closed in its own time.
            busy = [each for each in is_open if each.connection.session.in_flight]
            assert len(busy) <= connections
        for each in is_open:
            assert len(each.connection.session.in_flight) <= pipeline
            assert not queries or each.connection.given <= queries
    found.pass_time(2000)
    found.pass_time(2000)
    assert sorted(number for number, _ in found.answers) == list(range(asked))
    assert found.pool.waits == 0
    found.pool.close()
    assert all(link.is_closed for link in found.links)
    assert found.counts.open == 0
