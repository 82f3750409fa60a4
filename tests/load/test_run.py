"""Runs with sending processes that are made up, and the messages of those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.errors import LoadError
from hsdns.load.limits import read_limits
from hsdns.load.outcome import (
    ANSWERS,
    COUNTS,
    END,
    FORGET,
    LOST,
    OF_KIND,
    OUTCOMES,
    QUESTION,
    RCODE,
    REPLY,
    Frames,
    RecentReplies,
    frame,
    pack_numbers,
    pack_outcome,
    pack_question,
)
from hsdns.load.questions import Question
from hsdns.load.results import Results
from hsdns.load.run import (
    AHEAD,
    FELL_BEHIND,
    INTERRUPTED,
    AbortWatch,
    FailureWatch,
    Loaded,
    RunOptions,
    carry_out,
)
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import STALE, Verdict
from hsdns.load.verify.verifier import Judged, Verifier
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.verify.test_verifier import NAME, ONE, Said, reply
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")
QUESTIONS = [Question(NAME, RRType.A, "service")]
MS = SECOND // 1000
BEGIN = 5 * SECOND
Message = tuple[bytes, bytes]


class Clock:
    """A clock that only waiting moves; the run begins at BEGIN."""

    def __init__(self) -> None:
        self.now = BEGIN - AHEAD

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Sending:
    """Tells `steps` in turn, half a second apart; an exception in their place is raised."""

    def __init__(self, steps: Sequence[list[Message] | BaseException], clock: Clock) -> None:
        self.clock = clock
        self.steps = iter(steps)
        self.stopped = 0
        self.begin: int | None = None
        self.is_ready = False

    def prepare(self) -> None:
        self.is_ready = True

    def start(self, begin: int) -> None:
        assert self.is_ready
        self.begin = begin
        self.clock.now = begin

    def messages(self, timeout: float | None) -> Iterator[Message]:
        self.clock.now += SECOND // 2
        step = next(self.steps, [(END, b"")])
        if isinstance(step, BaseException):
            raise step
        yield from step

    def stop(self) -> None:
        self.stopped += 1


def outcomes(*found: tuple[int, int, int]) -> Message:
    """Planned and received in milliseconds from the begin (0: lost), and flags."""
    return OUTCOMES, pack_outcomes(
        (0, flags, 1, BEGIN + planned * MS, BEGIN + planned * MS, BEGIN + received * MS if received else LOST)
        for planned, received, flags in found
    )  # fmt: skip


def run(
    *servers: Sequence[list[Message] | BaseException],
    options: RunOptions | None = None,
    seconds: float = 1.0,
    verifier: Verifier | None = None,
) -> tuple[list[Results], list[Sending]]:
    clock = Clock()
    sending = [Sending(steps, clock) for steps in servers]
    loaded = [Loaded(f"s{number}", "", each, verifier) for number, each in enumerate(sending)]
    ended = carry_out(loaded, QUESTIONS, seconds, 0.5, options or RunOptions(), clock, clock.sleep)
    return ended, sending


def test_counts_and_answers_of_the_compiled_sender() -> None:
    counts = COUNTS, pack("=BIII", RCODE, 0, 0, 3) + pack("=BIII", RCODE + OF_KIND, 0, 0, 3)
    told = (REPLY, (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + reply(1))
    answers = ANSWERS, outcomes((100, 101, 0x8500))[1]
    verifier = Verifier(Said(), [ONE], slack=0.1)
    (ended,), _ = run([[told, counts, answers]], seconds=8, verifier=verifier)
    whole = ended.whole()
    assert (whole.counts.rcodes, whole.verdicts) == ({"NOERROR": 3}, {"right": 1})


def test_a_question_that_is_told() -> None:
    question = (QUESTION, pack_question(1, Question(NAME, RRType.AAAA, "search")))
    asked = (OUTCOMES, pack_outcomes([(1, 0x8502, 0, BEGIN, BEGIN, BEGIN + MS)]))
    said = Said()
    (ended,), _ = run([[question, asked]], verifier=Verifier(said, [ONE]))
    assert ended.kinds["search", RRType.AAAA].counts.answered == 1
    assert [each.qtype for each in said.learnt] == [RRType.AAAA]


def test_a_time_to_begin() -> None:
    """The servers begin then, and not before; a time that has come before they are ready is an error."""
    (ended,), (sending,) = run([[]], options=RunOptions(begin=lambda: BEGIN + 3 * SECOND))
    assert sending.begin == BEGIN + 3 * SECOND == ended.begin
    with pytest.raises(LoadError) as error:
        run([[]], options=RunOptions(begin=lambda: BEGIN - SECOND // 2))
    assert str(error.value) == (
        "this generator heard 0.5 s too late of the start; does it get too little CPU time?"
    )


def test_a_limit_ends_the_run_of_the_server_that_is_above_it() -> None:
    limits = read_limits("loss>1:abort,nxdomain>9:abort", verifies=False)
    lost = outcomes((10, 0, 0), (20, 0, 0))
    ended, sending = run(
        [[outcomes((10, 12, 0x8500))], [lost], [outcomes((30, 40, 0x8500))]],
        [[outcomes((10, 12, 0x8500))], [outcomes((20, 0, 0))]],
        options=RunOptions(limits=limits),
        seconds=9.0,
    )
    assert [each.server.ended for each in ended] == ["aborted by loss>1 (2)", ""]
    assert [each.whole().counts.answered for each in ended] == [2, 1]
    assert [each.stopped for each in sending] == [2, 0]
    assert ended[0].server.seconds < ended[1].server.seconds == 9.0


def test_interrupted_by_what_is_asked() -> None:
    """Said once, and no step is lost."""
    said = iter((False, True))
    steps: list[list[Message] | BaseException] = [
        [outcomes((10, 12, 0x8500))],
        [outcomes((20, 30, 0x8500))],
    ]
    options = RunOptions(interrupted=lambda: next(said, False))
    (ended,), (sending,) = run(steps, options=options, seconds=60)
    assert (ended.server.ended, ended.server.seconds, sending.stopped) == (INTERRUPTED, 0.5, 1)
    assert ended.whole().counts.answered == 2


def test_what_was_over_before_an_interruption_is_whole() -> None:
    ended, _ = run([[outcomes((10, 12, 0x8500))]], [[], [], [], KeyboardInterrupt()], seconds=1)
    assert [each.server.ended for each in ended] == ["", INTERRUPTED]


def test_a_generator_that_does_not_come_to_an_end() -> None:
    (ended,), (sending,) = run([[]] * 30)
    assert (ended.server.ended, sending.stopped > 0) == (FELL_BEHIND, True)


def test_answers_are_judged_and_changes_counted() -> None:
    said = Said()
    verifier = Verifier(said, [ONE], slack=0.1)
    told = (REPLY, (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + reply(1))
    steps: list[list[Message] | BaseException] = [
        [told, outcomes((100, 101, 0x8500), (7000, 7001, 0x8500)), (FORGET, pack_numbers([1]))]
    ]
    # `told` says the state until 10.0; the begin is 5.0, so the second one is asked for at 12.0.
    options = RunOptions(lambda: [5.5, 10.0])
    (ended,), _ = run(steps, options=options, seconds=8, verifier=verifier)
    assert ended.whole().verdicts == {"right": 1, STALE: 1}
    (stale,) = ended.stale.values()
    assert stale.worst_age_ms == pytest.approx(2000)
    assert ended.whole().changes == 2
    assert not verifier.waits


ONE_QUESTION = [Question(Name.from_text("www.a.test."), RRType.A, "file")]
TIMEOUT = 2.0


def results(*, slow: range = range(0), lost: range = range(0), late: range = range(0)) -> Results:
    """100 queries in each of 30 seconds, each answered after 1 ms, in slow ones after 20 ms; the last one may be lost."""
    found = Results(ONE_QUESTION, 0)
    for second in range(30):
        for number in range(100):
            planned = second * SECOND + number * 10 * MS
            sent = planned + (19 * MS if second in late else 0)
            received = (
                LOST
                if second in lost and number == 99
                else planned + (20 if second in slow else 1) * MS
            )
            found.add([(0, 0x8500, 0, planned, sent, received)])
    return found  # fmt: skip


def ended(limits: str, found: Results) -> tuple[float, str]:
    """When a run is ended, and what is said."""
    watch = AbortWatch(read_limits(limits, verifies=True), TIMEOUT)
    for tenth in range(300):
        if said := watch.see(found, tenth / 10):
            return tenth / 10, said
    return 30.0, ""


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "when a run ends"))
def test_when_a_run_ends(given: str, expected: str) -> None:
    """Limits, and the seconds that are slow, lost, or late because the generator is."""
    limits, *words = given.split()
    seconds = {name: range(*map(int, span.split("-"))) for name, span in (each.split("=") for each in words)}  # fmt: skip
    at, said = ended(limits, results(**seconds))
    assert f"{at:g} {said}".rstrip() == expected


def test_a_number_ends_a_run_at_once() -> None:
    found = results()
    assert ended("stale>0:abort,loss>3:abort", found) == (30.0, "")
    found.add_verdict(Judged(0, 0.5, 0.5, Verdict(STALE, 0.3)))
    assert ended("stale>0:abort,loss>3:abort", found) == (1.0, "aborted by stale>0 (1)")


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "what everything failing for seconds is: answered well and failed in each second"))  # fmt: skip
def test_seconds_in_which_everything_fails(given: str, expected: str) -> None:
    """A second without queries says nothing."""
    seconds = [tuple(map(int, each.split())) for each in given.split(",")]
    found, watch = Results(ONE_QUESTION, 0), FailureWatch(TIMEOUT)
    for number, (well, failed) in enumerate(seconds):
        found.second(number).counts.answer(0, well)
        found.second(number).counts.answer(2, failed)
    told = [watch.see(found, at / 10 + TIMEOUT) for at in range(10 * (len(seconds) + 1))]
    assert ("ends" if any(told) else "goes on") == expected
    assert not watch.see(found, TIMEOUT + 1)


# --- messages ---


def pack_outcomes(found: Iterable[tuple[int, int, int, int, int, int]]) -> bytes:
    """Outcomes as octets."""
    return b"".join(pack_outcome(*each) for each in found)


@given(
    messages=st.lists(
        st.tuples(st.sampled_from([b"o", b"r", b"e"]), st.binary(max_size=9)), max_size=6
    ),
    data=st.data(),
)
def test_messages_in_any_pieces(messages: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    octets = b"".join(frame(kind, content) for kind, content in messages)
    frames, found, at = Frames(), [], 0
    while at < len(octets):
        length = data.draw(st.integers(1, len(octets) - at))
        found += list(frames.feed(octets[at : at + length]))
        at += length
    assert found == messages


MOST = 8


@given(st.lists(st.integers(0, 40), max_size=200))
def test_recent_replies_are_bounded(contents: list[int]) -> None:
    """Of two replies, the one that is dropped first is not the one that has come later."""
    replies, known, came = RecentReplies[int](MOST), set[int](), dict[int, int]()
    for turn, number in enumerate(contents):
        content = bytes((number,))
        found = replies.get(content)
        assert (found == number) is (number in known)
        if found is None:
            dropped = set(replies.add(content, number))
            assert dropped <= known
            known -= dropped
            assert all(came[gone] < came[stays] for gone in dropped for stays in known)
            known.add(number)
        came[number] = turn
        assert len(known) <= MOST
