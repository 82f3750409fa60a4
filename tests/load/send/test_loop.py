"""The loop over UDP and the messages, on clocks of the tests; its compiled twin tells the same."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath import LoadCounts, LoadSender
from hsdns.load.outcome import (
    ANSWERS,
    COUNTS,
    FORGET,
    LATE,
    LOST,
    NOT_SENT,
    OUTCOMES,
    REPLY,
    UNSURE,
    Frames,
    Outcome,
    unpack_counts,
    unpack_numbers,
    unpack_outcomes,
)
from hsdns.load.questions import Question
from hsdns.load.results import Results, Second, kind_numbers
from hsdns.load.schedule import LATE_AFTER, NEVER_LATE, POSTPONED_AFTER, SECOND, Pace
from hsdns.load.send.loop import Query, Ready, Reporter, Sender
from hsdns.load.send.udp import RUN, SentTimes, UdpTransport
from hsdns.wire.name import Name
from tests.load.stream_peers import MS

BEGIN = 1_000_000_000
TIMEOUT = 50_000_000
QUERIES = [b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00%d" % number for number in range(3)]
QUESTIONS = [
    Question(Name.from_text(f"{number}.test."), 1 + number // 2, "file") for number in range(3)
]
compiled = pytest.mark.skipif(LoadSender is None, reason="the compiled twin is not built")


class World:
    """A clock, and a server that answers a query after `delays` nanoseconds, None for never.

    Each reply has one of so many `contents`, and flags of its own: the fourth has QR 0, and the fifth another question;
    there are so many `sockets`.
    """

    step = 1000  # the shortest wait
    timeout = TIMEOUT

    def __init__(
        self,
        delays: Sequence[int | None],
        *,
        room: int = 1000,
        stall: int = 0,
        sockets: int = 1,
        contents: int = 1,
        window: int = 0,
        is_stamped: bool = True,
        stamps: Sequence[int | None] = (None,),
    ) -> None:
        self.now = BEGIN
        self.stamps = cycle(stamps)
        self.is_stamped = is_stamped
        self.drops = iter((3,))
        self.delays = cycle(delays)
        self.room = room
        self.stall = stall
        self.sockets = sockets
        self.window = window
        self.contents = cycle(range(contents))
        self.arrivals: list[tuple[int, int, bytes]] = []
        self.octets = bytearray()
        self.over = False

    def clock(self) -> int:
        return self.now

    def wait(self, nanoseconds: int) -> list[int] | None:
        assert nanoseconds >= 0
        if self.over:
            return None
        next_arrival = min((at for at, *_ in self.arrivals), default=self.now + nanoseconds)
        self.now = max(self.now + self.step, min(self.now + nanoseconds, next_arrival)) + self.stall
        return sorted({socket for at, socket, _ in self.arrivals if at <= self.now})

    def send(self, socket: int, datagrams: Sequence[bytes]) -> list[int]:
        self.now += 300
        for query in datagrams[: self.room]:
            delay, content = next(self.delays), next(self.contents)
            if delay is not None:
                flags = (0x8400 * (content != 3) | content % 3 | content % 2 << 9).to_bytes(
                    2, "big"
                )
                question = b"?" if content == 4 else query[12:]
                reply = query[:2] + flags + query[4:12] + question + bytes(content)
                self.arrivals.append((self.now + delay, socket, reply))
        return [*range(len(datagrams))][self.room :]

    def left(self) -> tuple[int, int] | None:
        stamp = next(self.stamps)
        return None if stamp is None else (stamp % 3, self.now - stamp)

    def receive(self, socket: int) -> list[tuple[bytes, int]]:
        found: list[tuple[bytes, int]] = []
        left = []
        for each in self.arrivals:
            at, to, octets = each
            if at <= self.now and to == socket:
                found.append((octets, at if self.is_stamped else 0))
            else:
                left.append(each)
        self.arrivals = left
        return found

    def dropped(self) -> int:
        return next(self.drops, 0)

    def emit(self, octets: bytes) -> None:
        self.octets += octets

    @property
    def messages(self) -> list[tuple[bytes, bytes]]:
        return list(Frames().feed(bytes(self.octets)))


class ScriptedSocket:
    """A socket of a world."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number

    def send(self, datagrams: Sequence[bytes]) -> list[int]:
        return self.world.send(self.number, datagrams)

    def left(self) -> tuple[int, int] | None:
        return self.world.left()

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        return self.world.receive(self.number), False


def run_python(
    world: World,
    times: Sequence[int],
    *,
    replies: bool = False,
    most: int = 0,
    late_after: int = NEVER_LATE,
) -> None:
    first_ids = range(world.sockets)
    reporter = Reporter(world.emit, replies=replies, late_after=late_after)
    sockets = [ScriptedSocket(world, number) for number in first_ids]
    transport = UdpTransport(
        sockets,
        world.timeout,
        reporter.ended,
        world.clock,
        first_ids=first_ids,
        window=world.window,
    )
    transport.note, reporter.dropped = reporter.note, world.dropped

    def wait(nanoseconds: int) -> Ready:
        ready = world.wait(nanoseconds)
        return None if ready is None else [partial(transport.receive, each) for each in ready]

    sender = Sender(
        reporter=reporter,
        queries=QUERIES,
        times=iter(times),
        order=cycle(range(3)),
        clock=world.clock,
        wait=wait,
        most=most,
    )
    sender.transport = transport
    sender.run(BEGIN)


def run_compiled(
    world: World,
    times: Sequence[int],
    *,
    replies: bool = False,
    kinds: Sequence[int] = (),
    most: int = 0,
    late_after: int = NEVER_LATE,
) -> None:
    assert LoadSender is not None
    sender = LoadSender(
        QUERIES,
        kinds=kinds,
        first_ids=list(range(world.sockets)),
        timeout=world.timeout,
        replies=replies,
        window=world.window,
        most=most,
        late_after=late_after,
    )
    for at in range(0, len(times), 7):
        some = times[at : at + 7]
        questions = [number % 3 for number in range(at, at + len(some))]
        assert sender.feed(array("q", some).tobytes(), array("I", questions).tobytes())
    sender.end_feed()
    sender.run_in(world, BEGIN)
    assert not sender.feed(b"", b"")


def outcomes_of(world: World, of: bytes = OUTCOMES) -> list[Outcome]:
    packed = [content for kind, content in world.messages if kind == of]
    return [Outcome(*each) for content in packed for each in unpack_outcomes(content)]


@given(
    gaps=st.lists(st.integers(0, 30 * MS), max_size=30),
    delays=st.lists(st.none() | st.integers(0, 2 * TIMEOUT), min_size=1, max_size=5),
    stall=st.sampled_from([0, 100, 7 * MS]),
)
def test_every_query_is_sent_when_due_whatever_is_answered(
    gaps: list[int], delays: list[int | None], stall: int
) -> None:
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    world = World(delays, stall=stall)
    run_python(world, times)
    outcomes = outcomes_of(world)
    assert sorted(each.planned - BEGIN for each in outcomes) == times
    assert all(each.sent >= each.planned for each in outcomes)
    latest = max((each.sent - each.planned for each in outcomes), default=0)
    turns = 1 + len(times) // RUN
    assert latest <= turns * (60_000 + stall + 2000 + 300 * RUN)
    for each in outcomes:
        assert each.received == LOST or each.sent <= each.received < each.sent + TIMEOUT + stall + 50 * MS  # fmt: skip


@given(
    gap=st.integers(0, MS),
    delays=st.lists(st.none() | st.integers(0, 30 * MS), min_size=1, max_size=5),
    most=st.integers(1, 2 * RUN),
)
def test_no_more_wait_at_once_than_may(gap: int, delays: list[int | None], most: int) -> None:
    world, times = World(delays), [number * gap for number in range(60)]
    run_python(world, times, most=most)
    outcomes = outcomes_of(world)
    assert sorted(each.question for each in outcomes) == sorted(at % 3 for at in range(60))
    ends = [each.received or each.sent + TIMEOUT for each in outcomes]
    for each in outcomes:
        waiting = sum(
            other.sent <= each.sent < end for other, end in zip(outcomes, ends, strict=True)
        )
        assert waiting <= most
    # The rate is kept however long it had to wait: what was put off is not made up for.
    sent = sorted(each.sent for each in outcomes)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert sent[last] - sent[first] >= (last - first) * gap - POSTPONED_AFTER - 2 * MS


class Stopped(World):
    """A sender that is stopped once, and a server with a buffer of ordinary size that answers 2,500 a second."""

    step = 50_000
    stop_at = BEGIN + 100 * MS
    busy_until = 0
    ROOM = 277
    EACH = 400_000

    def clock(self) -> int:
        if self.now > self.stop_at:
            self.now, self.stop_at = self.now + 300 * MS, NEVER_LATE
        return self.now

    def send(self, socket: int, datagrams: Sequence[bytes]) -> list[int]:
        self.now += 300
        for query in datagrams:
            start = max(self.now, self.busy_until)
            if start - self.now < self.ROOM * self.EACH:
                self.busy_until = start + self.EACH
                reply = query[:2] + b"\x84" + query[3:]
                self.arrivals.append((self.busy_until, socket, reply))
        return []


@pytest.mark.parametrize("run", [run_python, pytest.param(run_compiled, marks=compiled)])
def test_a_stop_of_the_sender_loses_nothing(run: Callable[..., None]) -> None:
    """What was due meanwhile leaves at 1.2 times the rate, and is late; nothing is lost by a server that bears this."""
    world, gap = Stopped([]), 500_000
    run(world, [number * gap for number in range(4400)], late_after=LATE_AFTER)
    outcomes = sorted(outcomes_of(world), key=lambda each: each.planned)
    assert len(outcomes) == 4400
    assert all(each.received != LOST for each in outcomes)
    # The stop came when the first of them was in its system call.
    unsure, *late = [each for each in outcomes if each.flags & LATE]
    assert [each for each in outcomes if each.flags & UNSURE] == [unsure]
    assert late == [each for each in outcomes if each.sent - each.planned > LATE_AFTER]
    # 300 ms behind, which becomes less by 200 ms in a second.
    assert 3500 < len(late) < 3700
    caught_up = late[-1].sent - late[0].sent
    assert caught_up == pytest.approx((len(late) - 1) * gap / 1.2, rel=0.01)
    fewest = min(after.sent - first.sent for first, after in zip(late, late[100:], strict=False))
    assert fewest > 100 * gap / 1.2 - LATE_AFTER


class Stalling(World):
    """A server that does nothing in the first 200 ms of each second."""

    step = 20_000
    timeout = SECOND

    def send(self, socket: int, datagrams: Sequence[bytes]) -> list[int]:
        rest = 200 * MS - (self.now - BEGIN) % SECOND
        at = self.now + max(rest, 10_000)
        self.arrivals += [(at, socket, each[:2] + b"\x84\0" + each[4:]) for each in datagrams]
        return []


@pytest.mark.parametrize("run", [run_python, pytest.param(run_compiled, marks=compiled)])
def test_a_server_that_stalls(run: Callable[..., None]) -> None:
    """A fifth of the queries waits up to 200 ms: percentiles that a sender which waits for replies would not see."""
    world, results = Stalling([]), Results(QUESTIONS, BEGIN)
    run(world, [number * 500_000 for number in range(6000)], late_after=LATE_AFTER)
    results.add(outcomes_of(world))
    whole = results.whole()
    assert (whole.counts.answered, whole.counts.late) == (6000, 0)
    for slots in (whole.slots, whole.service_slots):
        told = [us and us / 1000 for us in slots.percentiles((50, 90, 95, 99))]
        assert told == [pytest.approx(0, abs=0.1), *(pytest.approx(ms, abs=1) for ms in (100, 150, 190))]  # fmt: skip


@given(gaps=st.lists(st.integers(0, 10 * MS), min_size=1, max_size=40), at=st.integers(0, 39), stop=st.integers(0, 90 * MS))  # fmt: skip
def test_a_sender_that_was_behind_is_level_again(gaps: list[int], at: int, stop: int) -> None:
    """No query leaves before it is due, or earlier after the one before than at 1.2 times the rate."""
    times = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    pace, now, before, left = Pace(iter(times), 0, LATE_AFTER), 0, 0, 0
    for number, due in enumerate(times):
        gap = due - before
        assert (pace.due, pace.at) == (due, max(due, left + gap - gap // 6))
        now, before = max(now, pace.at) + (stop if number == at else 0), due
        left = max(pace.at, now - LATE_AFTER)
        pace.begin_turn(now)
        assert pace.advance() == (number + 1 < len(times))


def test_what_is_told() -> None:
    """Questions in their order, and each reply once, if they are wanted; what was not sent; nothing after the end."""
    told, wanted, full, ended = (World([5], room=each) for each in (9, 9, 2, 9))
    ended.over = True
    run_python(told, [at * MS for at in range(4)])
    run_python(wanted, [at * MS for at in range(7)], replies=True)
    run_python(full, [0, 0, 0])
    run_python(ended, [0, 10 * MS])
    found = [(each.question, each.flags, each.reply) for each in outcomes_of(told)]
    assert found == [(0, 0x8400, 0), (1, 0x8400, 0), (2, 0x8400, 0), (0, 0x8400, 0)]
    assert {kind for kind, _ in told.messages} == {OUTCOMES, COUNTS}
    assert [each.reply for each in outcomes_of(wanted)] == [1, 2, 3, 1, 2, 3, 1]
    replies = [content[:8] for kind, content in wanted.messages if kind == REPLY]
    assert replies == [bytes((0, 0, 0, at + 1, 0, 0, 0, at)) for at in range(3)]
    assert {kind for kind, _ in wanted.messages} == {OUTCOMES, COUNTS, REPLY}
    assert wanted.messages[0][0] == REPLY
    assert sorted(each.received == NOT_SENT for each in outcomes_of(full)) == [False, False, True]
    assert [kind for kind, _ in ended.messages] == [COUNTS]


class New(World):
    """Each reply is a new one, but the 60,000th."""

    def __init__(self) -> None:
        super().__init__([5])
        self.numbers = (0 if number == 60_000 else number for number in count())

    def send(self, socket: int, datagrams: Sequence[bytes]) -> list[int]:
        return super().send(socket, [each + next(self.numbers).to_bytes(4, "big") for each in datagrams])  # fmt: skip


@pytest.mark.parametrize("run", [run_python, pytest.param(run_compiled, marks=compiled)])
def test_replies_that_are_forgotten(run: Callable[..., None]) -> None:
    """100,000 different ones are remembered; then the older half is forgotten, but for those that have come again."""
    world = New()
    run(world, [at * 100 for at in range(100_010)], replies=True)
    kinds = [kind for kind, _ in world.messages]
    before = kinds[: kinds.index(FORGET)]
    assert [kinds.count(REPLY), kinds.count(FORGET), before.count(REPLY)] == [100_009, 1, 99_999]
    dropped = unpack_numbers(world.messages[len(before)][1])
    assert sorted(dropped) == list(range(2, 50_001))
    told = [content for kind, content in world.messages[: len(before)] if kind == OUTCOMES]
    assert sum(map(len, told)) // 36 == 100_000


def in_order(messages: list[tuple[bytes, bytes]]) -> list[object]:
    """Messages, with their counts in one order."""
    return [(kind, sorted(unpack_counts(content)) if kind == COUNTS else content) for kind, content in messages]  # fmt: skip


@compiled
@given(
    gaps=st.lists(st.integers(0, 30 * MS) | st.just(0), max_size=60),
    delays=st.lists(st.none() | st.integers(0, 2 * TIMEOUT), min_size=1, max_size=5),
    stall=st.sampled_from([0, 100, 7 * MS]),
    room=st.integers(0, RUN),
    sockets=st.integers(1, 3),
    contents=st.integers(1, 5),
    window=st.integers(0, 20),
    replies=st.booleans(),
    most=st.sampled_from([0, 0, 1, 5, 20]),
    late_after=st.sampled_from([NEVER_LATE, LATE_AFTER]),
    is_stamped=st.booleans(),
    stamps=st.lists(st.none() | st.integers(0, 400), min_size=1, max_size=5),
)
def test_both_twins_tell_the_same(
    gaps: list[int],
    delays: list[int | None],
    replies: bool,
    most: int,
    late_after: int,
    **shape: Any,
) -> None:
    times = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    python, told, counted = (World(delays, **shape) for _ in range(3))
    run_python(python, times, replies=replies, most=most, late_after=late_after)
    run_compiled(told, times, replies=replies, most=most, late_after=late_after)
    assert in_order(told.messages) == in_order(python.messages)

    if most:
        return  # what counts goes by the schedule alone
    kinds = kind_numbers(QUESTIONS)
    run_compiled(counted, times, replies=replies, kinds=kinds, late_after=late_after)
    expected, found = Results(QUESTIONS, BEGIN), Results(QUESTIONS, BEGIN)
    expected.add(outcomes_of(python))
    for kind, content in python.messages:
        if kind == COUNTS:
            expected.add_counts(content)
    for kind, content in counted.messages:
        if kind == COUNTS:
            found.add_counts(content)
    assert everything(found) == everything(expected)
    answered = [each for each in outcomes_of(python) if each.received > LOST]
    assert outcomes_of(counted, ANSWERS) == (answered if replies else [])
    assert outcomes_of(counted) == []


def test_the_kernel_says_when_queries_leave() -> None:
    """A call of 16, then two without stamps: what is usual follows from the stamps."""
    times = SentTimes()
    assert times.ended(0, 1600, 16, None)[:3] == [75, 175, 275]
    assert times.ended(0, 1600, 2, (0, 40)) == [40, 141]
    assert times.ended(0, 1600, 3, (2, 100)) == [40, 70, 100]
    assert times.ended(0, 1600, 3, None) == [40, 70, 100]
    assert times.ended(0, 9000, 2, (0, 5000)) == [5000, 5030]
    assert times.ended(0, 1600, 2, (1, 1700)) == times.ended(0, 1600, 2, None) == [41, 71]
    assert times.ended(0, 50, 2, None) == [41, 50]


@compiled
def test_octets_of_any_kind() -> None:
    """Replies that are no DNS, too short or of no query."""
    assert LoadSender is not None
    world = World([None])
    world.arrivals = [(BEGIN + at * MS, 0, bytes([at]) * at) for at in range(40)]
    run_compiled(world, [at * MS for at in range(40)], replies=True)
    assert len(outcomes_of(world)) == 40


@compiled
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (([1], [0], [], []), "each query has a kind, or none has"),
        (([], [], [], []), "there is no socket"),
        (([], [0], [1], []), "each time has one question"),
        (([], [0], [1], [3]), "there is no such question"),
    ],
)
def test_what_does_not_fit(row: tuple[list[int], ...], message: str) -> None:
    assert LoadSender is not None
    kinds, first_ids, times, questions = row
    with pytest.raises(ValueError, match=message):
        LoadSender(QUERIES, kinds=kinds, first_ids=first_ids, timeout=1, replies=False).feed(
            array("q", times).tobytes(), array("I", questions).tobytes()
        )


START = 1000
KINDS = [Question(Name.from_text("a."), qtype, "") for qtype in (1, 28, 1)]
counter = pytest.mark.skipif(LoadCounts is None, reason="the compiled counter is not built")


def everything(results: Results) -> list[tuple[object, ...]]:
    """Everything that was counted, of seconds and of kinds."""
    parts: list[Any] = [*sorted(results.seconds.items()), *sorted(results.kinds.items())]
    return [
        (
            *(key, each.counts, each.slots.pairs()),
            each.service_slots.pairs(),
            (
                each.late_slots.pairs(),
                each.sent_within_slots.pairs(),
                each.unmatched,
                each.dropped,
                each.unstamped,
            )
            if isinstance(each, Second)
            else None,
        )
        for key, each in parts
    ]


outcomes = st.lists(
    st.tuples(
        st.integers(0, 2),  # question
        st.integers(0, 0xFFFF),  # flags
        st.integers(0, 3 * SECOND),  # planned
        st.integers(0, 3 * LATE_AFTER),  # late
        st.one_of(st.sampled_from((LOST, NOT_SENT)), st.integers(1, SECOND)),
    )
)


@counter
@given(found=outcomes, replies=st.booleans())
def test_what_is_counted_is_what_is_told(
    found: list[tuple[int, int, int, int, int]], replies: bool
) -> None:
    """The results are the same, whether the compiled counter counts or the process that gets the outcomes.

    Answers that are to be judged are told as well.
    """
    mine, theirs = Results(KINDS, START), Results(KINDS, START)
    told: dict[bytes, list[tuple[int, ...]]] = {ANSWERS: [], OUTCOMES: []}
    for results, numbers in ((mine, kind_numbers(KINDS)), (theirs, ())):
        emitted: list[bytes] = []
        reporter = Reporter(emitted.append, replies, numbers, late_after=LATE_AFTER)
        reporter.begin(START)
        for question, flags, planned, late, took in found:
            query = Query(b"", question, START + planned, START + planned + late)
            message = b"" if took in (LOST, NOT_SENT) else b"\0\0" + flags.to_bytes(2, "big")
            reporter.ended(query, message, query.sent + took if message else took)
        reporter.report()
        for kind, content in Frames().feed(b"".join(emitted)):
            if kind == COUNTS:
                results.add_counts(content)
            elif kind in told:
                told[kind] += unpack_outcomes(content)
    theirs.add(Outcome(*each) for each in told[OUTCOMES])
    assert everything(mine) == everything(theirs)
    answered = [each for each in told[OUTCOMES] if each[-1] > LOST]
    assert told[ANSWERS] == (answered if replies else [])
