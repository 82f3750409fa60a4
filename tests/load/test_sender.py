"""The sender on a clock that stands still unless it waits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.in_flight import InFlight
from hsdns.load.outcome import (
    FORGET,
    LOST,
    NOT_SENT,
    OUTCOMES,
    REPLY,
    Frames,
    Outcome,
    unpack_outcomes,
)
from hsdns.load.sender import MOST, Sender

BEGIN = 1_000_000_000
TIMEOUT = 50_000_000
MS = 1_000_000


class World:
    """A clock, and a server that answers a query after `delays` nanoseconds, None for never."""

    def __init__(self, delays: Sequence[int | None], *, room: int = 1000, stall: int = 0) -> None:
        self.now = BEGIN
        self.delays = cycle(delays)
        self.room = room
        self.stall = stall
        self.arrivals: list[tuple[int, bytes]] = []
        self.octets = b""
        self.over = False

    def clock(self) -> int:
        return self.now

    def wait(self, nanoseconds: int) -> list[int] | None:
        assert nanoseconds >= 0
        if self.over:
            return None
        next_arrival = min((at for at, _ in self.arrivals), default=self.now + nanoseconds)
        self.now = max(self.now + 1000, min(self.now + nanoseconds, next_arrival)) + self.stall
        return [0] if any(at <= self.now for at, _ in self.arrivals) else []

    def send(self, queries: Sequence[bytes]) -> int:
        taken = queries[: self.room]
        for query in taken:
            delay = next(self.delays)
            if delay is not None:
                reply = query[:2] + b"\x84\x00" + query[4:]
                self.arrivals.append((self.now + delay, reply))
        return len(queries) - len(taken)

    def receive(self) -> list[bytes]:
        found = [octets for at, octets in self.arrivals if at <= self.now]
        self.arrivals = [each for each in self.arrivals if each[0] > self.now]
        return found

    def emit(self, octets: bytes) -> None:
        self.octets += octets


def send(
    world: World, times: Sequence[int], *, replies: bool = False
) -> tuple[list[Outcome], list[bytes]]:
    queries = [b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00%d" % number for number in range(3)]
    sender = Sender(
        [world],
        queries,
        iter(times),
        cycle(range(3)),
        InFlight(1, TIMEOUT),
        clock=world.clock,
        wait=world.wait,
        emit=world.emit,
        replies=replies,
    )
    sender.run(BEGIN)
    outcomes, kinds = [], []
    for kind, content in Frames().feed(world.octets):
        kinds.append(kind)
        if kind == OUTCOMES:
            outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
    return outcomes, kinds


@given(
    gaps=st.lists(st.integers(0, 30 * MS), max_size=30),
    delays=st.lists(st.none() | st.integers(0, 2 * TIMEOUT), min_size=1, max_size=5),
    stall=st.sampled_from([0, 100, 7 * MS]),
)
def test_every_query_is_sent_when_due_whatever_is_answered(
    gaps: list[int], delays: list[int | None], stall: int
) -> None:
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    outcomes, _ = send(World(delays, stall=stall), times)
    assert sorted(each.planned - BEGIN for each in outcomes) == times
    assert all(each.sent >= each.planned for each in outcomes)
    latest = max((each.sent - each.planned for each in outcomes), default=0)
    assert latest <= 60_000 + stall + 2000
    for each in outcomes:
        assert each.received == LOST or each.sent <= each.received < each.sent + TIMEOUT + stall + 50 * MS  # fmt: skip


def test_what_is_late_is_sent_at_once_and_both_times_are_told() -> None:
    world = World([0], stall=20 * MS)
    outcomes, _ = send(world, [0, 1 * MS, 2 * MS, 3 * MS])
    assert [each.planned - BEGIN for each in outcomes] == [0, 1 * MS, 2 * MS, 3 * MS]
    assert outcomes[1].sent == outcomes[3].sent >= BEGIN + 20 * MS


def test_questions_in_their_order_and_flags_of_replies() -> None:
    outcomes, kinds = send(World([5]), [0, 1 * MS, 2 * MS, 3 * MS])
    assert [each.question for each in outcomes] == [0, 1, 2, 0]
    assert {each.flags for each in outcomes} == {0x8400}
    assert {each.reply for each in outcomes} == {0}
    assert set(kinds) == {OUTCOMES}


def test_a_reply_is_told_once() -> None:
    world = World([5])
    outcomes, kinds = send(world, [at * MS for at in range(7)], replies=True)
    assert [each.reply for each in outcomes] == [1, 2, 3, 1, 2, 3, 1]
    told = [content for kind, content in Frames().feed(world.octets) if kind == REPLY]
    assert [content[:8] for content in told] == [
        (number + 1).to_bytes(4, "big") + number.to_bytes(4, "big") for number in range(3)
    ]
    assert kinds.index(OUTCOMES) > kinds.index(REPLY)
    assert FORGET not in kinds


def test_lost() -> None:
    outcomes, _ = send(World([None]), [0, 1 * MS])
    assert [each.received for each in outcomes] == [LOST, LOST]


def test_no_room() -> None:
    outcomes, _ = send(World([5], room=2), [0, 0, 0])
    assert sorted(each.received == NOT_SENT for each in outcomes) == [False, False, True]


def test_a_burst_that_is_longer_than_a_turn() -> None:
    outcomes, _ = send(World([5]), [0] * (2 * MOST + 1))
    assert len(outcomes) == 2 * MOST + 1


def test_what_is_stopped_tells_what_was_answered() -> None:
    world = World([5])
    world.over = True
    assert send(world, [0, 10 * MS]) == ([], [])
