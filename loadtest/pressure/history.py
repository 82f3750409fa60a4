"""The true state of each Service at each time, and the answers that were allowed then; without clocks and sockets.

Path: judge.py -> here <- the changes of the API server (loadtest/apiserver/control.py); load/verify/judge.py judges.
Rule 1: a state is true from the write of its event at the API server until the write of the next one.
Rule 2: an answer is right if its addresses were true at some time between MARGIN before the query was sent and the
        arrival of the reply.  It is stale if they were true before, and wrong if they never were.
Rule 3: a change is shown by the first reply with its state or a later one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, WRONG, judge
from hsdns.load.verify.judge import Answer as Said

MARGIN: Final = 0.1  # seconds
FAILED: Final = "failed"
_STATES = 200  # past states of a Service that are remembered; older ones count as wrong


class Answer(NamedTuple):
    """A reply: clock times of query and reply, and the addresses; None if it was not NOERROR with addresses."""

    service: str
    asked: float
    received: float
    addresses: frozenset[str] | None


class _State(NamedTuple):
    since: float
    addresses: frozenset[str]
    number: int  # of the change that made it; -1 at the beginning


class History:
    """The states of Services, beginning with the addresses that each had at the start.

    Delays are measured for changes of the Services in `timed`; None: of all.
    """

    def __init__(
        self, before: Mapping[str, Iterable[str]], timed: Collection[str] | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.worst_age = 0.0  # seconds by which the oldest stale answer was late
        self._states = {
            service: deque([_State(float("-inf"), frozenset(addresses), -1)], _STATES)
            for service, addresses in before.items()
        }
        self._unshown: dict[str, list[tuple[int, float]]] = {
            service: [] for service in (before if timed is None else timed)
        }
        self._changes = 0

    def change(self, time: float, service: str, old: str, new: str) -> None:
        """Record that one address replaced another; raise KeyError for a Service that is not among them."""
        states = self._states[service]
        addresses = states[-1].addresses - {old} | {new}
        states.append(_State(time, addresses, self._changes))
        if service in self._unshown:
            self._unshown[service].append((self._changes, time))
        self._changes += 1

    def judge(self, answer: Answer) -> tuple[str, list[float]]:
        """Judge an answer; return the verdict, and the delays in seconds of the changes that it is the first to show.

        All changes up to its arrival must be recorded.
        """
        word, shown = self._judge(answer)
        self.counts[word] += 1
        return word, shown

    def _judge(self, answer: Answer) -> tuple[str, list[float]]:
        if answer.addresses is None:
            return FAILED, []
        states = self._states[answer.service]
        found = judge(
            [state.since for state in states],
            lambda number: _said(states[number].addresses),
            answer.asked,
            answer.received,
            _said(answer.addresses),
            MARGIN,
        )
        if found.word == STALE:
            self.worst_age = max(self.worst_age, found.age)
            return STALE, []
        if found.word != RIGHT and found.reason != BEHIND:
            return WRONG, []
        number = next(
            state.number
            for state in reversed(states)
            if state.addresses == answer.addresses and state.since <= answer.received
        )
        return RIGHT, self._shown(answer, number)

    def _shown(self, answer: Answer, number: int) -> list[float]:
        waiting = self._unshown.get(answer.service, [])
        delays = [answer.received - time for which, time in waiting if which <= number]
        waiting[:] = [each for each in waiting if each[0] > number]
        return delays

    def unshown(self, since: float, now: float) -> list[float]:
        """For changes from before `since` that no answer has shown yet: the seconds since each of them."""
        return [
            now - time for waiting in self._unshown.values() for _, time in waiting if time < since
        ]


def _said(addresses: frozenset[str]) -> Said:
    return Said(0, frozenset((1, address.encode()) for address in addresses))
