"""A pass over scripted servers: what they tell is taken, truncated answers are asked for again, Ctrl-C keeps what there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hsdns.audit.run import Answers, Asking, carry_out, words
from hsdns.load.outcome import END, OUTCOMES, REPLY
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.verifier import Verifier
from hsdns.wire.iana import RRType
from tests.load.test_outcome import pack_outcomes
from tests.load.verify.test_verifier import NAME, ONE, Said, reply

TC = 0x200
Message = tuple[bytes, bytes] | None  # None is Ctrl-C


class Sends:
    """Tells one message a turn."""

    def __init__(self, *messages: Message) -> None:
        self._messages = [*messages, (END, b"")]
        self.stopped = False

    def prepare(self) -> None:
        """Nothing is to be told."""

    def start(self, begin: int) -> None:
        assert begin > 0

    def messages(self, timeout: float | None) -> Iterator[tuple[bytes, bytes]]:
        message = self._messages.pop(0)
        if message is None:
            raise KeyboardInterrupt
        yield message

    def stop(self) -> None:
        self.stopped = True


def new_reply(content: bytes) -> Message:
    return REPLY, (1).to_bytes(4, "big") + (0).to_bytes(4, "big") + content


def outcome(flags: int = 0x8400) -> Message:
    at = 15 * SECOND
    return OUTCOMES, pack_outcomes([(0, flags, 1, at, at, at + SECOND // 4)])


def carried_out(
    *servers: Sends, again: bytes | None = None
) -> tuple[bool, list[dict[str, int]], list[int]]:
    shown: list[int] = []
    asking = [
        Asking(
            each,
            Answers([Question(NAME, RRType.A, "service")], Verifier(Said(), [ONE]), 0),
            lambda question, is_truncated: None if again is None else (again, 16.0, 16.25),
        )
        for each in servers
    ]
    is_whole = carry_out(asking, shown.append, lambda: 1e9, lambda seconds: None)
    return is_whole, [words(each.answers.results) for each in asking], shown


def test_two_servers_at_once() -> None:
    right = Sends(new_reply(reply(2)), outcome())
    stale = Sends(new_reply(reply(1)), outcome())
    assert carried_out(right, stale) == (True, [{"right": 1}, {"stale": 1}], [0, 2, 2])


def test_a_truncated_answer_is_asked_for_over_tcp() -> None:
    truncated = reply(flags=0x8400 | TC)
    sends = Sends(new_reply(truncated), outcome(0x8400 | TC))
    assert carried_out(sends, again=b"\0\0" + reply(2))[1] == [{"right": 1}]


def test_a_truncated_answer_that_does_not_come_over_tcp() -> None:
    sends = Sends(new_reply(reply(flags=0x8400 | TC)), outcome(0x8400 | TC))
    assert carried_out(sends)[1] == [{"undecided": 1}]


def test_ctrl_c_keeps_what_there_is() -> None:
    sends = Sends(new_reply(reply(2)), outcome(), None)
    assert carried_out(sends) == (False, [{"right": 1}], [0, 1, 1])
    assert sends.stopped


def test_a_lost_query_is_sent_again() -> None:
    lost = OUTCOMES, pack_outcomes([(0, 0, 0, 15 * SECOND, 15 * SECOND, 0)])
    assert carried_out(Sends(lost), again=b"\0\0" + reply(2))[1] == [{"right": 1}]
    assert carried_out(Sends(lost))[1] == [{"lost": 1}]


@pytest.mark.parametrize(("questions", "tries"), [(2, 2), (10, 3), (1001, 0)])
def test_a_server_that_loses_them_again_is_left_alone(questions: int, tries: int) -> None:
    """Three times in a row; of a server that has lost very many, none is asked for again."""
    tried: list[int] = []

    def ask_again(question: int, is_truncated: bool) -> None:
        tried.append(question)

    at = 15 * SECOND
    lost = pack_outcomes([(each, 0, 0, at, at, 0) for each in range(questions)])
    asked = [Question(NAME, RRType.A, "service")] * questions
    answers = Answers(asked, Verifier(Said(), [ONE] * questions), 0)
    asking = Asking(Sends((OUTCOMES, lost)), answers, ask_again)
    assert carry_out([asking], lambda asked: None, lambda: 1e9, lambda seconds: None)
    assert len(tried) == tries
    assert words(answers.results) == {"lost": questions}
