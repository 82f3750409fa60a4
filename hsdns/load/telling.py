"""Messages for the process that counts: outcomes of queries over connections, and facts of connections.

Path: stream_sender.py -> here -> outcome.py and connection_facts.py pack them -> a pipe.
Rule 1: a reply is sent once, with a number, before the outcomes that refer to it.
Rule 2: a compiled counter counts the outcomes; then they are sent only if answers are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hsdns.fastpath import LoadCounts
from hsdns.load.asked import Asked
from hsdns.load.connection_facts import Fact, pack_facts
from hsdns.load.outcome import (
    ANSWERS,
    CONNECTIONS,
    COUNTS,
    OUTCOMES,
    forget_frame,
    frame,
    pack_outcomes,
    reply_frame,
)
from hsdns.load.recent_replies import RecentReplies

if TYPE_CHECKING:
    from hsdns.fastpath._native import LoadCounts as Compiled

REPORT_EVERY: Final = 20_000_000  # nanoseconds


class Telling:
    """Collects messages for `emit`; `replies`: whether they are wanted; `kinds` as in plan.Plan."""

    def __init__(
        self, emit: Callable[[bytes], None], *, replies: bool, kinds: Sequence[int] = ()
    ) -> None:
        self._emit = emit
        self._wants_replies = replies
        self._kinds = kinds
        self._counts: Compiled | None = None
        self._outcomes: list[tuple[int, int, int, int, int, int]] = []
        self._facts: list[Fact] = []
        self._replies = RecentReplies[int]()
        self._count = 0
        self._told = 0

    def begin(self, begin: int) -> None:
        """Set the begin of the schedule, in nanoseconds of the monotonic clock."""
        if self._kinds and LoadCounts is not None:
            self._counts = LoadCounts(self._kinds, begin)

    def fact(self, fact: Fact) -> None:
        """Add a fact."""
        self._facts.append(fact)

    def reply(self, asked: Asked, message: bytes, now: int) -> None:
        """Add a reply; its ID is ignored."""
        flags = message[2] << 8 | message[3]
        if self._counts is not None:
            self._counts.add(asked.question, flags, asked.planned, asked.sent, now)
            if not self._wants_replies:
                return
        number = self._number(asked.question, message[2:]) if self._wants_replies else 0
        self._outcomes.append((asked.question, flags, number, asked.planned, asked.sent, now))

    def without_reply(self, asked: Asked, why: int) -> None:
        """Add a query without a reply; `why` is LOST or NOT_SENT."""
        if self._counts is not None:
            self._counts.add(asked.question, 0, asked.planned, asked.sent, why)
        else:
            self._outcomes.append((asked.question, 0, 0, asked.planned, asked.sent, why))

    def tell_at(self, now: int) -> None:
        """Emit all messages if it is time."""
        if now - self._told >= REPORT_EVERY:
            self._told = now
            self.tell()

    def tell(self) -> None:
        """Emit all messages."""
        if self._counts is not None and (counts := self._counts.take()):
            self._emit(frame(COUNTS, counts))
        if self._outcomes:
            kind = OUTCOMES if self._counts is None else ANSWERS
            self._emit(frame(kind, pack_outcomes(self._outcomes)))
            self._outcomes.clear()
        if self._facts:
            self._emit(frame(CONNECTIONS, pack_facts(self._facts)))
            self._facts.clear()

    def _number(self, question: int, content: bytes) -> int:
        number = self._replies.get(content)
        if number is None:
            self.tell()
            number = self._count = self._count + 1
            if dropped := self._replies.add(content, number):
                self._emit(forget_frame(dropped))
            self._emit(reply_frame(number, question, content))
        return number
