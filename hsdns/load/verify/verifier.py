"""Judges the answers of a run as they arrive.

Path: run.py passes outcomes and replies -> here -> judge.py, with the states of truth.py.
Rule 1: a right answer is judged at once.  Any other waits for PATIENCE, so that the watch sees what the server may have
        seen earlier.
Rule 2: most replies are repeated, so a reply is stored with the state that it matched: while that state is true,
        nothing is compared.
Rule 3: while the watch was interrupted, no answer counts against the server; while it was late, only a stale one does.
        If the generator changes the cluster itself, a change counts from when it has shown it.  A query that was late
        may have been sent at any time since it was due, because the sender can be held just before it reads the clock.
Rule 4: a wrong field (message.py) is wrong at any time; only where the cluster does not determine the answer, nothing
        but a broken message is wrong.
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
    ERROR,
    NOT_BAD,
    RIGHT,
    STALE,
    TRUNCATED,
    UNDECIDED,
    UNJUDGED,
    UNKNOWN,
    WRONG,
    Answer,
    Verdict,
    judge,
    right_state,
)
from hsdns.load.verify.message import MESSAGE, MOST_TTL, Reading, read
from hsdns.wire.iana import Rcode
from hsdns.wire.message import TC

if TYPE_CHECKING:
    from hsdns.load.verify.truth import Truth

PATIENCE: Final = 1.0  # seconds
SLACK: Final = 0.1  # seconds
JUDGED: Final = (Rcode.NOERROR, Rcode.NXDOMAIN)


class Judged(NamedTuple):
    """A verdict on an answer to a question; times in monotonic seconds."""

    question: int
    planned: float
    asked: float
    verdict: Verdict


class _Reply(msgspec.Struct):
    """A reply that outcomes refer to; `reading` is None if it is none to its question.

    `right` are the last question and state that it matched.
    """

    reading: Reading | None
    right: tuple[int, int] = (-1, 0)


class _Waiting(NamedTuple):
    question: int
    planned: float
    asked: float
    received: float
    reply: _Reply


class Verifier:
    """Judges answers to `questions`; `slack` and the highest correct TTL in seconds, `edns` as in Question.query()."""

    def __init__(
        self,
        truth: Truth,
        questions: Sequence[Question],
        slack: float = SLACK,
        edns: int = 0,
        most_ttl: int = MOST_TTL,
    ) -> None:
        self.slack = slack
        self.patience = max(PATIENCE, 2 * slack)
        self._truth, self._edns, self._most_ttl = truth, edns, most_ttl
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
        query = self._questions[question].query(self._edns)
        self._replies[number] = _Reply(read(content, query, self._most_ttl))

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop replies: outcomes no longer refer to them."""
        for number in numbers:
            self._replies.pop(number, None)

    def judge(
        self, question: int, flags: int, reply: int, planned: float, asked: float, received: float
    ) -> Judged | None:
        """Judge an answer; None if it is none to the question, or is judged later."""
        if flags & 15 not in JUDGED:
            return Judged(question, planned, asked, Verdict(UNJUDGED, reason=ERROR))
        waiting = _Waiting(question, planned, asked, received, self._replies[reply])
        reading = waiting.reply.reading
        if reading is None:
            return None
        if reading.answer.rcode not in JUDGED:  # an extended one
            verdict = Verdict(UNJUDGED, reason=ERROR)
        elif flags & TC:
            verdict = Verdict(UNJUDGED, reason=TRUNCATED)
        elif reading.field == MESSAGE:
            verdict = Verdict(WRONG, reason=MESSAGE)
        else:
            verdict = self._judge(waiting, reading)
            if not reading.field and verdict.word not in (RIGHT, UNJUDGED):
                self._waiting.append(waiting)
                return None
        return Judged(question, planned, asked, verdict)

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
            assert reply.reading is not None, "no other waits"
            verdict = self._judge(waiting, reply.reading)
            if self._is_doubtful(verdict, received):
                verdict = Verdict(UNDECIDED, verdict.age, AWAY)
            elif verdict.word == STALE:
                behind = planned - self._truth.shown(asked - verdict.age)
                if behind <= self.slack:
                    verdict = Verdict(UNDECIDED, max(0.0, behind), BEHIND)
            yield Judged(question, planned, asked, verdict)

    def _is_doubtful(self, verdict: Verdict, received: float) -> bool:
        """Whether the watch was interrupted or late; lateness makes no answer stale, but may cause other verdicts.

        Not if the watch leads: no server knows more than it then.
        """
        truth, begin, end = self._truth, received - self.slack, received + self.patience
        if verdict.word in NOT_BAD:
            return False
        if truth.is_away() or truth.was_away(begin, end):
            return True
        if verdict.word == EARLY:
            end = received + verdict.age
        return verdict.word != STALE and not truth.leads and truth.was_late(begin, end)

    def _judge(self, waiting: _Waiting, reading: Reading) -> Verdict:
        number, answer = self._numbers[waiting.question], reading.answer
        found = self._truth.states(number)
        if found is None:
            return Verdict(UNJUDGED, reason=UNKNOWN)
        since, base = found

        def expected(state: int) -> Answer | None:
            return self._truth.expected(number, base + state)

        asked, received = waiting.asked, waiting.received
        if not reading.field:
            state = right_state(since, expected, asked, received, answer)
            if state is not None:
                waiting.reply.right = waiting.question, base + state
                return Verdict(RIGHT)
        verdict = judge(since, expected, asked, received, answer, self.slack, forgotten=base > 0)
        return (
            Verdict(WRONG, reason=reading.field)
            if reading.field and verdict.word != UNJUDGED
            else verdict
        )
