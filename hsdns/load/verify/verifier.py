"""Judges the answers of a run as they arrive.

Path: run.py passes outcomes and replies -> here -> judge.py, with the states of truth.py.
Rule 1: a right answer is judged at once.  Any other waits for PATIENCE, so that the watch sees what the server may have
        seen earlier.
Rule 2: most replies are repeated, so a reply is stored with the state that it matched: while that state is true,
        nothing is compared.
Rule 3: while the watch was interrupted, no answer counts against the server; while it was late, only a stale one does.
        If the generator changes the cluster itself, a change counts from when it has shown it.
Rule 4: only NOERROR and NXDOMAIN replies are judged.  Other rcodes and lost queries are counted elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from hsdns.load.outcome import LOST, PlainOutcome
from hsdns.load.questions import Question
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import (
    AWAY,
    BEHIND,
    EARLY,
    RIGHT,
    STALE,
    TRUNCATED,
    UNDECIDED,
    UNKNOWN,
    Answer,
    Verdict,
    answer_of,
    judge,
    right_state,
)
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.iana import Rcode
from hsdns.wire.message import TC, Query

if TYPE_CHECKING:
    from hsdns.load.verify.truth import Truth

PATIENCE: Final = 1.0  # seconds
SLACK: Final = 0.1  # seconds
JUDGED: Final = (Rcode.NOERROR, Rcode.NXDOMAIN)


def read_answer(content: bytes, query: Query) -> Answer | None:
    """The answer in a reply without its ID; None if it is not a reply to the query."""
    try:
        reply = decode_reply(b"\0\0" + content, query)
    except BadReply:
        return None
    return answer_of(reply.rcode, reply.answer)


class Judged(NamedTuple):
    """A verdict on an answer to a question; times in monotonic seconds."""

    question: int
    planned: float
    asked: float
    verdict: Verdict


class _Reply(msgspec.Struct):
    """A reply that outcomes refer to; `answer` is None if it is none to its question.

    `right` are the last question and state that it matched.
    """

    answer: Answer | None
    right: tuple[int, int] = (-1, 0)


class _Waiting(NamedTuple):
    question: int
    planned: float
    asked: float
    received: float
    reply: _Reply


class Verifier:
    """Judges answers to `questions`; `slack` in seconds."""

    def __init__(self, truth: Truth, questions: Sequence[Question], slack: float = SLACK) -> None:
        self.slack = slack
        self.patience = max(PATIENCE, 2 * slack)
        self._truth = truth
        self._questions = list(questions)
        # The numbers of the questions in truth.py, which several servers share.
        self._numbers = list(range(len(questions)))
        self._replies: dict[int, _Reply] = {}
        self._waiting: deque[_Waiting] = deque()

    def add_question(self, question: Question) -> None:
        """Add a question; its number is the next one."""
        self._questions.append(question)
        self._numbers.append(self._truth.add_question(question))

    def remember(self, number: int, question: int, content: bytes) -> None:
        """Store a reply, without its ID, that outcomes may refer to."""
        self._replies[number] = _Reply(read_answer(content, self._questions[question].query()))

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop replies: outcomes no longer refer to them."""
        for number in numbers:
            self._replies.pop(number, None)

    def judge(
        self, question: int, flags: int, reply: int, planned: float, asked: float, received: float
    ) -> Judged | None:
        """Judge an answer; None if it is not an answer, or is judged later."""
        if flags & 15 not in JUDGED:
            return None
        if flags & TC:
            return Judged(question, planned, asked, Verdict(UNDECIDED, reason=TRUNCATED))
        waiting = _Waiting(question, planned, asked, received, self._replies[reply])
        if waiting.reply.answer is None:
            return None
        verdict = self._judge(waiting, waiting.reply.answer)
        if verdict.word == RIGHT or verdict.reason == UNKNOWN:
            return Judged(question, planned, asked, verdict)
        self._waiting.append(waiting)
        return None

    def judge_all(self, outcomes: Iterable[PlainOutcome]) -> tuple[list[int], list[Judged]]:
        """Judge the answers among outcomes; return due times of right ones, in nanoseconds, and other verdicts."""
        right, others = [], []
        replies, numbers, states = self._replies, self._numbers, self._truth.states
        for question, flags, reply, planned, sent, received in outcomes:
            if received <= LOST:
                continue
            asked, arrived = sent / SECOND, received / SECOND
            known = replies.get(reply)
            if known is not None and known.right[0] == question:
                found = states(numbers[question])
                if found is not None:
                    since, base = found
                    at = known.right[1] - base
                    if (
                        at >= 0
                        and since[at] <= arrived
                        and (at + 1 == len(since) or since[at + 1] > asked)
                    ):
                        right.append(planned)
                        continue
            judged = self.judge(question, flags, reply, planned / SECOND, asked, arrived)
            if judged is not None and judged.verdict.word == RIGHT:
                right.append(planned)
            elif judged is not None:
                others.append(judged)
        return right, others

    @property
    def waits(self) -> bool:
        """Whether answers wait to be judged."""
        return bool(self._waiting)

    def settled(self, now: float) -> Iterator[Judged]:
        """Judge answers that have waited long enough; `now` is infinite at the end."""
        while self._waiting and self._waiting[0].received + self.patience <= now:
            waiting = self._waiting.popleft()
            question, planned, asked, received, reply = waiting
            assert reply.answer is not None, "no other waits"
            verdict = self._judge(waiting, reply.answer)
            if self._is_doubtful(verdict, received):
                verdict = Verdict(UNDECIDED, verdict.age, AWAY)
            elif verdict.word == STALE:
                behind = asked - self._truth.shown(asked - verdict.age)
                if behind <= self.slack:
                    verdict = Verdict(UNDECIDED, max(0.0, behind), BEHIND)
            yield Judged(question, planned, asked, verdict)

    def _is_doubtful(self, verdict: Verdict, received: float) -> bool:
        """Whether the watch was interrupted or late; lateness makes no answer stale, but may cause other verdicts."""
        truth, begin, end = self._truth, received - self.slack, received + self.patience
        if verdict.word in (RIGHT, UNDECIDED):
            return False
        if truth.is_away() or truth.was_away(begin, end):
            return True
        if verdict.word == EARLY:
            end = received + verdict.age
        return verdict.word != STALE and truth.was_late(begin, end)

    def _judge(self, waiting: _Waiting, answer: Answer) -> Verdict:
        number = self._numbers[waiting.question]
        found = self._truth.states(number)
        if found is None:
            return Verdict(UNDECIDED, reason=UNKNOWN)
        since, base = found

        def expected(state: int) -> Answer | None:
            return self._truth.expected(number, base + state)

        asked, received = waiting.asked, waiting.received
        state = right_state(since, expected, asked, received, answer)
        if state is not None:
            waiting.reply.right = waiting.question, base + state
            return Verdict(RIGHT)
        return judge(since, expected, asked, received, answer, self.slack, forgotten=base > 0)
