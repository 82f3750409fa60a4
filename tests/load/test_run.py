"""A run with a sending process that is made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from hsdns.load.judge import STALE
from hsdns.load.outcome import (
    END,
    FORGET,
    LOST,
    OUTCOMES,
    QUESTION,
    REPLY,
    pack_outcomes,
    pack_question,
)
from hsdns.load.questions import Question
from hsdns.load.run import FAILING, FELL_BEHIND, INTERRUPTED, Ended, Watching, carry_out
from hsdns.load.schedule import SECOND
from hsdns.load.verifier import Verifier
from hsdns.wire.iana import RRType
from tests.load.test_verifier import NAME, QUERY, Said, reply

QUESTIONS = [Question(NAME, RRType.A, "service")]
MS = SECOND // 1000
Message = tuple[bytes, bytes]


class Sending:
    """Tells `steps` in turn, half a second apart; an exception in their place is raised."""

    def __init__(self, steps: Sequence[list[Message] | BaseException]) -> None:
        self.now = 5 * SECOND
        self.steps = iter(steps)
        self.stopped = 0

    def begin(self) -> int:
        return self.now

    def messages(self, timeout: float | None) -> Iterator[Message]:
        self.now += SECOND // 2
        step = next(self.steps, [(END, b"")])
        if isinstance(step, BaseException):
            raise step
        yield from step

    def stop(self) -> None:
        self.stopped += 1

    def clock(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


def outcomes(*found: tuple[int, int, int]) -> Message:
    """Planned and received in milliseconds from the begin (0: lost), and flags."""
    begin = 5 * SECOND
    return OUTCOMES, pack_outcomes(
        (0, flags, 1, begin + planned * MS, begin + planned * MS, begin + received * MS if received else LOST)
        for planned, received, flags in found
    )  # fmt: skip


def run(sending: Sending, watching: Watching | None = None, seconds: float = 1.0) -> Ended:
    return carry_out(
        sending, QUESTIONS, seconds, 0.5, watching or Watching(), sending.clock, sending.sleep
    )


def test_what_is_told_is_counted_and_shown() -> None:
    shown = []
    watching = Watching(show=lambda results, at: shown.append((at, results.whole().sent)))
    ended = run(Sending([[outcomes((10, 12, 0x8400))], [outcomes((600, 0, 0))]]), watching)
    assert (ended.why, ended.seconds) == ("", 1.0)
    whole = ended.results.whole()
    assert (whole.answered, whole.lost) == (1, 1)
    assert shown == [(0.5, 1), (1.0, 2), (1.5, 2)]


def test_a_question_that_is_told() -> None:
    question = (QUESTION, pack_question(1, Question(NAME, RRType.AAAA, "search")))
    begin = 5 * SECOND
    asked = (OUTCOMES, pack_outcomes([(1, 0x8402, 0, begin, begin, begin + MS)]))
    said = Said()
    ended = run(Sending([[question, asked]]), Watching(Verifier(said, [QUERY])))
    assert ended.results.kinds["search", RRType.AAAA].answered == 1
    assert [each.qtype for each in said.learnt] == [RRType.AAAA]


def test_interrupted() -> None:
    sending = Sending(
        [[outcomes((10, 12, 0x8400))], KeyboardInterrupt(), [outcomes((20, 30, 0x8400))]]
    )
    ended = run(sending, seconds=60)
    assert (ended.why, ended.seconds, sending.stopped) == (INTERRUPTED, 1.0, 1)
    assert ended.results.whole().answered == 2


def failing(count: int) -> list[list[Message] | BaseException]:
    return [[outcomes((at * 500, 0, 0), (at * 500, at * 500 + 1, 0x8402))] for at in range(count)]


@pytest.mark.parametrize(("keeps_going", "why"), [(False, FAILING), (True, "")])
def test_a_target_that_fails_everything(keeps_going: bool, why: str) -> None:
    ended = run(Sending(failing(20)), Watching(keeps_going=keeps_going), seconds=60)
    assert ended.why == why
    assert ended.results.whole().sent == 40


def test_a_generator_that_does_not_come_to_an_end() -> None:
    sending = Sending([[]] * 30)
    ended = run(sending)
    assert (ended.why, sending.stopped > 0) == (FELL_BEHIND, True)


def test_answers_are_judged_and_changes_counted() -> None:
    said = Said()
    verifier = Verifier(said, [QUERY], slack=0.1)
    told = (REPLY, (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + reply(1))
    sending = Sending([[told, outcomes((100, 101, 0x8400), (7000, 7001, 0x8400)), (FORGET, b"")]])
    # `told` says the state until 10.0; the begin is 5.0, so the second one is asked for at 12.0.
    ended = run(sending, Watching(verifier, lambda: [5.5, 10.0]), seconds=8)
    assert ended.results.whole().verdicts == {"right": 1, STALE: 1}
    assert ended.results.stale[0].worst_age == pytest.approx(2.0)
    assert ended.results.whole().changes == 2
    assert not verifier.waits
