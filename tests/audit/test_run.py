"""A pass over scripted servers, with the truth of tests/load/verify/test_verifier.py: address 1, 2 from 10.0 on, 3 from 20.0 on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hsdns.audit.run import ERROR, LOST, Answers, Asking, Result, carry_out
from hsdns.load.outcome import END, FORGET, OUTCOMES, REPLY, pack_numbers
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import RIGHT, STALE, TRUNCATED, UNJUDGED, WRONG
from hsdns.load.verify.verifier import Verifier
from hsdns.wire.iana import RRType
from tests.load.test_run import pack_outcomes
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


def told(content: bytes, flags: int = 0x8500) -> list[Message]:
    """A reply with number 1, after 250 ms."""
    at = 15 * SECOND
    number = (1).to_bytes(4, "big") + (0).to_bytes(4, "big")
    return [
        (REPLY, number + content),
        (OUTCOMES, pack_outcomes([(0, flags, 1, at, at, at + SECOND // 4)])),
    ]


def carried_out(*servers: Sends, again: bytes | None = None) -> tuple[bool, list[Answers], list[int]]:  # fmt: skip
    shown: list[int] = []
    asking = [
        Asking(
            each,
            Answers([Question(NAME, RRType.A, "service")], Verifier(Said(), [ONE]), 0),
            lambda question, is_truncated: None if again is None else (again, 16.0, 16.5),
        )
        for each in servers
    ]
    is_whole = carry_out(asking, shown.append, lambda: 1e9, lambda seconds: None)
    return is_whole, [each.answers for each in asking], shown


LOSS: Message = OUTCOMES, pack_outcomes([(0, 0, 0, 15 * SECOND, 15 * SECOND, 0)])
CUT = told(reply(flags=0x8500 | TC), 0x8500 | TC)
AGAIN = b"\0\0" + reply(2)


@pytest.mark.parametrize(
    ("messages", "again", "result", "addresses"),
    [
        (told(reply(2)), None, Result(RIGHT, 0.0, 0.25, 0, 5), []),
        (told(reply(1)), None, Result(STALE, 5.0, 0.25, 0, 5), [1]),
        (told(reply(8, 9)), None, Result(WRONG, 0.0, 0.25, 0, 5, "answer"), [8, 9]),
        (told(reply(flags=0x8502), 0x8502), None, Result(ERROR, 0.0, 0.25, 2), []),
        # It comes again over TCP, or does not.
        (CUT, AGAIN, Result(RIGHT, 0.0, 0.5, 0, 5), []),
        (CUT, None, Result(UNJUDGED, 0.0, 0.25, 0, None, TRUNCATED), []),
        # A lost query is sent once more.
        ([LOSS], AGAIN, Result(RIGHT, 0.0, 0.5, 0, 5), []),
        ([LOSS], None, Result(LOST), []),
        # The numbers of replies that are forgotten are free.
        ([*told(reply(2)), (FORGET, pack_numbers([1, 2])), *told(reply(9))], None, Result(WRONG, 0.0, 0.25, 0, 5, "answer"), [9]),
    ],
)  # fmt: skip
def test_results(messages: list[Message], again: bytes | None, result: Result, addresses: list[int]) -> None:  # fmt: skip
    is_whole, (found,), _ = carried_out(Sends(*messages), again=again)
    assert (is_whole, found.results, found.waits) == (True, [result], False)
    assert [each.rdata[-1] for each in found.records(0)] == addresses


def test_two_servers_at_once() -> None:
    is_whole, found, shown = carried_out(Sends(*told(reply(2))), Sends(*told(reply(1))))
    assert (is_whole, shown) == (True, [0, 2, 2])
    assert [[each.word for each in answers.results] for answers in found] == [[RIGHT], [STALE]]


def test_ctrl_c_keeps_what_there_is() -> None:
    sends = Sends(*told(reply(2)), None)
    is_whole, (found,), shown = carried_out(sends)
    assert (is_whole, found.results[0].word, shown) == (False, RIGHT, [0, 1, 1])
    assert sends.stopped


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
    assert answers.lost == [*range(questions)]
