"""Whether an answer was right: what was true of its question at which time, and what the answer says.

Path: verifier.py -> here <- truth.py, which has the states of a question.
Rule 1: a state is true from the time at which the watch saw it until it saw the next one.
Rule 2: an answer is right if it says a state that was true at some time between its query and its arrival.
Rule 3: the watch may see a change up to `slack` later than the server, or the server later than it.  A state that ended
        less than `slack` before the query, or began less than `slack` after the arrival, is therefore UNDECIDED.
Rule 4: a state that ended earlier is STALE, by the time from its end to the query; one that began later is EARLY.
Rule 5: what was never true is MISSING if it lacks records of a state of that time, EXTRA if it has more, else WRONG.
        Where states are forgotten or unknown it is UNDECIDED.
No clock and no socket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

RIGHT: Final = "right"
STALE: Final = "stale"
EARLY: Final = "early"
MISSING: Final = "missing"
EXTRA: Final = "extra"
WRONG: Final = "wrong"
UNDECIDED: Final = "undecided"
VERDICTS: Final = (RIGHT, STALE, EARLY, MISSING, EXTRA, WRONG, UNDECIDED)

# Why an answer is undecided.
BEHIND: Final = "behind"  # it says a state that ended less than the slack before
AHEAD: Final = "ahead"  # it says a state that began less than the slack after
UNKNOWN: Final = "unknown"  # the cluster does not say what is right
FORGOTTEN: Final = "forgotten"  # it may be a state from so long ago that it is not remembered
TRUNCATED: Final = "truncated"  # the answer is not whole
AWAY: Final = "away"  # the watch of the generator was away itself
REASONS: Final = (BEHIND, AHEAD, UNKNOWN, FORGOTTEN, TRUNCATED, AWAY)


class Answer(NamedTuple):
    """What an answer says: the rcode, and type and RDATA of each record of its answer section, in any order."""

    rcode: int
    records: frozenset[tuple[int, bytes]] = frozenset()


class Verdict(NamedTuple):
    """What an answer is.

    `age`, in seconds, is how far it is behind or ahead (STALE, EARLY, and UNDECIDED for these reasons).
    """

    word: str
    age: float = 0.0
    reason: str = ""


Expected = Callable[[int], Answer | None]


def right_state(
    since: Sequence[float], expected: Expected, asked: float, received: float, answer: Answer
) -> int | None:
    """The number of the newest state between query and arrival that an answer says; None if it says none of them."""
    first, last = _between(since, asked, received)
    return next((at for at in range(last, first - 1, -1) if expected(at) == answer), None)


def judge(
    since: Sequence[float],
    expected: Expected,
    asked: float,
    received: float,
    answer: Answer,
    slack: float,
    *,
    forgotten: bool = False,
) -> Verdict:
    """Judge an answer; `since` are the times from which each state was true, `expected` says one by its number.

    An `expected` None means that it is not known.  `forgotten`: there were states before the first one.
    """
    if right_state(since, expected, asked, received, answer) is not None:
        return Verdict(RIGHT)
    first, last = _between(since, asked, received)
    states = len(since)
    near = last + 1
    while near < states and since[near] <= received + slack:
        if expected(near) == answer:
            return Verdict(UNDECIDED, since[near] - received, AHEAD)
        near += 1
    for state in range(first - 1, -1, -1):
        if expected(state) == answer:
            age = asked - since[state + 1]
            if age <= slack:
                return Verdict(UNDECIDED, age, BEHIND)
            return Verdict(STALE, age)
    for state in range(near, states):
        if expected(state) == answer:
            return Verdict(EARLY, since[state] - received)
    while first > 0 and since[first] > asked - slack:
        first -= 1
    return _compare([expected(state) for state in range(first, near)], answer, forgotten)


def _between(since: Sequence[float], asked: float, received: float) -> tuple[int, int]:
    """The first and the last state that was true at some time between query and arrival."""
    first = max(0, bisect_right(since, asked) - 1)
    return first, max(first, bisect_right(since, received) - 1)


def _compare(states: Sequence[Answer | None], answer: Answer, forgotten: bool) -> Verdict:
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return Verdict(UNDECIDED, reason=UNKNOWN)
    if forgotten:
        return Verdict(UNDECIDED, reason=FORGOTTEN)
    if any(answer.records < state.records for state in known):
        return Verdict(MISSING)
    if any(answer.records > state.records for state in known):
        return Verdict(EXTRA)
    return Verdict(WRONG)
