"""The results of one server, with the truth of tests/load/verify/test_verifier.py: address 1, 2 from 10.0 on, 3 from 20.0 on."""

from __future__ import annotations

import pytest

from hsdns.audit.run import ERROR, LOST, Answers, Result, words
from hsdns.load.outcome import FORGET, OUTCOMES, REPLY, pack_numbers
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import RIGHT, STALE, TRUNCATED, UNDECIDED, WRONG
from hsdns.load.verify.verifier import Verifier
from hsdns.wire.iana import RRType
from tests.load.test_outcome import pack_outcomes
from tests.load.verify.test_verifier import NAME, ONE, Said, reply

TC = 0x200


def answers() -> Answers:
    return Answers([Question(NAME, RRType.A, "service")], Verifier(Said(), [ONE]), 0)


def take(found: Answers, content: bytes, flags: int = 0x8400, at: float = 15.0) -> None:
    found.take(REPLY, (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + content)
    sent = round(at * SECOND)
    received = round((at + 0.25) * SECOND)
    found.take(OUTCOMES, pack_outcomes([(0, flags, 1, sent, sent, received)]))


def test_nothing_was_asked_yet() -> None:
    found = answers()
    assert found.results == [Result(LOST)]
    assert found.asked == 0


@pytest.mark.parametrize(
    ("content", "flags", "result"),
    [
        (reply(2), 0x8400, Result(RIGHT, 0.0, 0.25, 0, 5)),
        (reply(1), 0x8400, Result(STALE, 5.0, 0.25, 0, 5)),
        (reply(9), 0x8400, Result(WRONG, 0.0, 0.25, 0, 5)),
        (reply(flags=0x8402), 0x8402, Result(ERROR, 0.0, 0.25, 2)),
        (reply(flags=0x8400 | TC), 0x8400 | TC, Result(UNDECIDED, 0.0, 0.25, 0, None, TRUNCATED)),
    ],
)
def test_results(content: bytes, flags: int, result: Result) -> None:
    found = answers()
    take(found, content, flags)
    found.settle(float("inf"))
    assert found.results == [result]
    assert found.asked == 1
    assert not found.waits


def test_what_a_wrong_answer_had() -> None:
    found = answers()
    take(found, reply(8, 9))
    found.settle(float("inf"))
    assert [(each.rrtype, each.ttl, each.rdata[-1]) for each in found.records(0)] == [(1, 5, 8), (1, 5, 9)]  # fmt: skip


def test_a_right_answer_is_not_kept() -> None:
    found = answers()
    take(found, reply(2))
    assert found.records(0) == ()


def test_a_truncated_answer_comes_again_over_tcp() -> None:
    found = answers()
    take(found, reply(flags=0x8400 | TC), 0x8400 | TC)
    assert found.truncated == [0]
    found.take_again(0, b"\x12\x34" + reply(2), 16.0, 16.5)
    assert found.truncated == []
    assert found.results == [Result(RIGHT, 0.0, 0.5, 0, 5)]
    assert found.asked == 1


def test_replies_that_are_forgotten() -> None:
    """Their numbers are free."""
    found = answers()
    take(found, reply(2))
    found.take(FORGET, pack_numbers([1, 2]))
    take(found, reply(9))
    found.settle(float("inf"))
    assert words(found.results) == {WRONG: 1}
