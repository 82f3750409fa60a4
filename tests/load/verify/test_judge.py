from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.verify.judge import (
    AHEAD,
    BEHIND,
    EARLY,
    EXTRA,
    FORGOTTEN,
    MISSING,
    RIGHT,
    STALE,
    UNDECIDED,
    UNKNOWN,
    WRONG,
    Answer,
    Verdict,
    judge,
)

SLACK = 0.1


def answer(letters: str, rcode: int = 0) -> Answer:
    return Answer(rcode, frozenset((1, letter.encode()) for letter in letters))


NXDOMAIN, NODATA = answer("", 3), answer("")
# ab until 10, bc until 20, then cd.
SINCE, STATES = (float("-inf"), 10.0, 20.0), (answer("ab"), answer("bc"), answer("cd"))


@pytest.mark.parametrize(
    ("asked", "received", "letters", "verdict"),
    [
        (5.0, 5.1, "ab", Verdict(RIGHT)),
        (9.0, 12.0, "ab", Verdict(RIGHT)),
        (9.0, 12.0, "bc", Verdict(RIGHT)),
        (9.0, 21.0, "bc", Verdict(RIGHT)),
        (10.0625, 10.5, "ab", Verdict(UNDECIDED, 0.0625, BEHIND)),
        (10.25, 10.5, "ab", Verdict(STALE, 0.25)),
        (30.0, 30.1, "ab", Verdict(STALE, 20.0)),
        (30.0, 30.1, "bc", Verdict(STALE, 10.0)),
        (30.0, 30.1, "cd", Verdict(RIGHT)),
        (9.5, 9.9375, "bc", Verdict(UNDECIDED, 0.0625, AHEAD)),
        (9.0, 9.5, "bc", Verdict(EARLY, 0.5)),
        (5.0, 5.5, "cd", Verdict(EARLY, 14.5)),
        (5.0, 5.1, "a", Verdict(MISSING)),
        (5.0, 5.1, "", Verdict(MISSING)),
        (5.0, 5.1, "abc", Verdict(EXTRA)),
        (5.0, 5.1, "ac", Verdict(WRONG)),
        (10.05, 10.08, "a", Verdict(MISSING)),  # of the state that ended within the slack
        (10.5, 10.6, "a", Verdict(WRONG)),
    ],
)
def test_verdict(asked: float, received: float, letters: str, verdict: Verdict) -> None:
    assert judge(SINCE, STATES.__getitem__, asked, received, answer(letters), SLACK) == verdict


@pytest.mark.parametrize(
    ("states", "given_answer", "verdict"),
    [
        ([NXDOMAIN], NXDOMAIN, Verdict(RIGHT)),
        ([NXDOMAIN], NODATA, Verdict(WRONG)),
        ([NXDOMAIN], answer("a"), Verdict(EXTRA)),
        ([answer("a")], NXDOMAIN, Verdict(MISSING)),
        ([None], answer("a"), Verdict(UNDECIDED, 0.0, UNKNOWN)),
    ],
)
def test_no_records(
    states: Sequence[Answer | None], given_answer: Answer, verdict: Verdict
) -> None:
    assert judge((0.0,), states.__getitem__, 5.0, 5.1, given_answer, SLACK) == verdict


def test_what_may_be_older_than_all_that_is_remembered_is_undecided() -> None:
    since, states = (10.0, 20.0), (answer("bc"), answer("cd"))
    found = judge(since, states.__getitem__, 30.0, 30.1, answer("ab"), SLACK, forgotten=True)
    assert found == Verdict(UNDECIDED, 0.0, FORGOTTEN)


@given(
    gaps=st.lists(st.floats(0.001, 3.0), max_size=12),
    shown=st.integers(0, 12),
    asked=st.floats(-5.0, 40.0),
    took=st.floats(0.0, 1.0),
    slack=st.sampled_from([0.0, 0.01, 0.1, 1.0]),
)
def test_any_sequence_of_states(
    gaps: list[float], shown: int, asked: float, took: float, slack: float
) -> None:
    """Each state is of its own, so an answer says exactly one of them."""
    since = [float("-inf")]
    for gap in gaps:
        since.append((0.0 if since[-1] < 0 else since[-1]) + gap)
    shown = min(shown, len(gaps))
    received = asked + took
    states = [answer(chr(97 + number)) for number in range(len(since))]
    found = judge(since, states.__getitem__, asked, received, states[shown], slack)
    end = since[shown + 1] if shown < len(gaps) else float("inf")
    begin = since[shown]
    if begin <= received and end > asked:
        assert found == Verdict(RIGHT)
    elif begin > received:
        early = begin - received
        assert found.age == early
        assert (found.word, found.reason) == (
            (UNDECIDED, AHEAD) if begin <= received + slack else (EARLY, "")
        )
    else:
        age = asked - end
        assert found.age == age
        assert (found.word, found.reason) == ((UNDECIDED, BEHIND) if age <= slack else (STALE, ""))
    never = judge(since, states.__getitem__, asked, received, answer("z"), slack)
    assert never.word == WRONG
