"""Judges whether an answer was right, from the states of its question over time.

Path: verifier.py -> here, with the states of questions of truth.py.
Rule 1: a state is true from when the watch saw it until it saw the next one.
Rule 2: an answer is right if it matches a state that was true at some time between its query and its arrival.
Rule 3: the watch may see a change up to `slack` later than the server, or the server later than it.  A state that ended
        less than `slack` before the query, or began less than `slack` after the arrival, is therefore UNDECIDED.
Rule 4: a state that ended earlier is STALE, by the time from its end to the query; one that began later is EARLY.
Rule 5: an answer that was never true is MISSING if it lacks records of a state of that time, EXTRA if it has more, else
        WRONG, with the field that is wrong.  If states are forgotten, it is UNDECIDED.
Rule 6: an answer that nothing can be compared with is UNJUDGED, so that every answer has a verdict.
No clock and no socket.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.wire.iana import RRType
from hsdns.wire.message import RR

RIGHT: Final = "right"
STALE: Final = "stale"
EARLY: Final = "early"
MISSING: Final = "missing"
EXTRA: Final = "extra"
WRONG: Final = "wrong"
UNDECIDED: Final = "undecided"
UNJUDGED: Final = "unjudged"
VERDICTS: Final = (RIGHT, STALE, EARLY, MISSING, EXTRA, WRONG, UNDECIDED, UNJUDGED)
NOT_BAD: Final = (RIGHT, UNDECIDED, UNJUDGED)

# Why an answer is undecided.
BEHIND: Final = "behind"  # it matches a state that ended less than the slack before
AHEAD: Final = "ahead"  # it matches a state that began less than the slack after
FORGOTTEN: Final = "forgotten"  # it may match an old state that is no longer stored
AWAY: Final = "away"  # the generator's own watch was interrupted

# Why an answer is unjudged.
UNKNOWN: Final = "unknown"  # the cluster does not determine what is right
TRUNCATED: Final = "truncated"  # the answer is incomplete
ERROR: Final = "error"  # the rcode is neither NOERROR nor NXDOMAIN

# Fields whose content is compared here; message.py has the others.
RCODE: Final = "rcode"
ANSWER: Final = "answer"
ADDITIONAL: Final = "additional"

_NAMES: Final = (RRType.CNAME, RRType.PTR, RRType.SRV, RRType.NS)


class Answer(NamedTuple):
    """The content of an answer: the rcode, and type and RDATA of each record of its answer section, in any order.

    `glue` are owner, type and RDATA of the addresses in its additional section.
    """

    rcode: int
    records: frozenset[tuple[int, bytes]] = frozenset()
    glue: frozenset[tuple[bytes, int, bytes]] = frozenset()

    def says(self, right: Answer | None) -> bool:
        """Whether it is the same as a right answer; only that has all addresses of its targets, or none."""
        return (
            right is not None
            and self[:2] == right[:2]
            and (not right.glue or self.glue <= right.glue)
        )


def answer_of(rcode: int, records: Sequence[RR], additional: Sequence[RR] = ()) -> Answer:
    """The answer in the records of two sections.

    Names in RDATA are in lower case, and the weight of SRV is omitted: no specification defines it.
    """
    found = []
    for record in records:
        rdata = record.rdata
        if record.rrtype in _NAMES:
            if record.rrtype == RRType.SRV:
                rdata = rdata[:2] + rdata[4:6] + rdata[6:].lower()
            else:
                rdata = rdata.lower()
        found.append((record.rrtype, rdata))
    if not additional:
        return Answer(rcode, frozenset(found))
    glue = {(owner.lower, rrtype, rdata) for owner, rrtype, _, rdata, _ in additional}
    return Answer(rcode, frozenset(found), frozenset(glue))


class Verdict(NamedTuple):
    """The verdict on an answer.

    `age`, in seconds, is how far it is behind or ahead (STALE, EARLY, and UNDECIDED for these reasons).  `reason` is
    why it is UNDECIDED or UNJUDGED; of WRONG it is the field.
    """

    word: str
    age: float = 0.0
    reason: str = ""


Expected = Callable[[int], Answer | None]


def right_state(
    since: Sequence[float], expected: Expected, asked: float, received: float, answer: Answer
) -> int | None:
    """The number of the newest state between query and arrival that an answer matches; None if it matches none."""
    first, last = _between(since, asked, received)
    return next((at for at in range(last, first - 1, -1) if answer.says(expected(at))), None)


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
    """Judge an answer; `since` are the times from which each state was true, `expected` gives a state by its number.

    If `expected` gives None, the state is unknown.  `forgotten`: there were states before the first one.
    """
    if right_state(since, expected, asked, received, answer) is not None:
        return Verdict(RIGHT)
    first, last = _between(since, asked, received)
    states = len(since)
    near = last + 1
    while near < states and since[near] <= received + slack:
        if answer.says(expected(near)):
            return Verdict(UNDECIDED, since[near] - received, AHEAD)
        near += 1
    for state in range(first - 1, -1, -1):
        if answer.says(expected(state)):
            age = asked - since[state + 1]
            if age <= slack:
                return Verdict(UNDECIDED, age, BEHIND)
            return Verdict(STALE, age)
    for state in range(near, states):
        if answer.says(expected(state)):
            return Verdict(EARLY, since[state] - received)
    while first > 0 and since[first] > asked - slack:
        first -= 1
    return _compare([expected(state) for state in range(first, near)], answer, forgotten)


def _between(since: Sequence[float], asked: float, received: float) -> tuple[int, int]:
    """The first and the last state that were true at some time between query and arrival."""
    first = max(0, bisect_right(since, asked) - 1)
    return first, max(first, bisect_right(since, received) - 1)


def _compare(states: Sequence[Answer | None], answer: Answer, forgotten: bool) -> Verdict:
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return Verdict(UNJUDGED, reason=UNKNOWN)
    if forgotten:
        return Verdict(UNDECIDED, reason=FORGOTTEN)
    if any(answer.records < state.records for state in known):
        return Verdict(MISSING)
    if any(answer.records > state.records for state in known):
        return Verdict(EXTRA)
    if any(answer[:2] == state[:2] for state in known):
        return Verdict(WRONG, reason=ADDITIONAL)
    same = any(answer.rcode == state.rcode for state in known)
    return Verdict(WRONG, reason=ANSWER if same else RCODE)
