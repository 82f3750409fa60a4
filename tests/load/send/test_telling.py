from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath import LoadCounts
from hsdns.load.outcome import (
    ANSWERS,
    CONNECTIONS,
    COUNTS,
    FORGET,
    LATE,
    LOST,
    NOT_SENT,
    OUTCOMES,
    REPLY,
    Fact,
    Frames,
    RecentReplies,
    unpack_outcomes,
)
from hsdns.load.questions import Question
from hsdns.load.results import Results, Second, kind_numbers
from hsdns.load.schedule import SECOND
from hsdns.load.send.connection import Asked
from hsdns.load.send.stream import REPORT_EVERY, Telling
from hsdns.wire.name import Name

BEGIN = 1000
QUESTIONS = [Question(Name.from_text("a."), qtype, "") for qtype in (1, 28, 1)]
compiled = pytest.mark.skipif(LoadCounts is None, reason="the compiled counter is not built")
MESSAGE = b"\xff\xff\x84\3\0\1\0\0\0\0\0\0"


def told(telling: Telling, emitted: list[bytes]) -> list[tuple[bytes, object]]:
    telling.tell()
    found: list[tuple[bytes, object]] = []
    for kind, content in Frames().feed(b"".join(emitted)):
        found.append((kind, list(unpack_outcomes(content)) if kind == OUTCOMES else content))
    emitted.clear()
    return found


def test_a_reply_is_told_once_and_its_id_never() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=True)
    telling.reply(Asked(b"", 7, 10, 20), MESSAGE, 30)
    telling.reply(Asked(b"", 7, 11, 21), b"\0\1" + MESSAGE[2:], 31)
    telling.without_reply(Asked(b"", 8, 12, 22), LOST)
    assert told(telling, emitted) == [
        (REPLY, b"\0\0\0\1" + b"\0\0\0\7" + MESSAGE[2:]),
        (OUTCOMES, [(7, 0x8403, 1, 10, 20, 30), (7, 0x8403, 1, 11, 21, 31), (8, 0, 0, 12, 22, LOST)]),
    ]  # fmt: skip
    assert told(telling, emitted) == []


def test_replies_that_nobody_wants() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=False)
    telling.reply(Asked(b"", 7, 10, 20), MESSAGE, 30)
    telling.fact(Fact(LATE))
    assert [kind for kind, _ in told(telling, emitted)] == [OUTCOMES, CONNECTIONS]


def test_many_different_replies() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=True)
    telling._replies = RecentReplies(2)
    for at in range(3):
        telling.reply(Asked(b"", 0, 0, 0), MESSAGE + bytes((at,)), 1)
    found = told(telling, emitted)
    kinds = [kind for kind, _ in found]
    assert kinds == [REPLY, OUTCOMES, REPLY, OUTCOMES, FORGET, REPLY, OUTCOMES]
    assert found[4] == (FORGET, (1).to_bytes(4, "big"))


def counted(results: Results) -> list[tuple[object, ...]]:
    """Everything that was counted, of seconds and of kinds."""
    parts: list[Any] = [*sorted(results.seconds.items()), *sorted(results.kinds.items())]
    return [
        (
            *(key, each.counts, each.slots.pairs()),
            each.late_slots.pairs() if isinstance(each, Second) else None,
        )
        for key, each in parts
    ]


outcomes = st.lists(
    st.tuples(
        st.integers(0, 2),  # question
        st.integers(0, 0xFFFF),  # flags
        st.integers(0, 3 * SECOND),  # planned
        st.integers(0, SECOND),  # late
        st.one_of(st.sampled_from((LOST, NOT_SENT)), st.integers(1, SECOND)),
    )
)


@compiled
@given(outcomes)
def test_what_is_counted_is_what_is_told(found: list[tuple[int, int, int, int, int]]) -> None:
    """The results are the same, whether the compiled counter counts or the process that gets the outcomes."""
    kinds = kind_numbers(QUESTIONS)
    mine, theirs = Results(QUESTIONS, BEGIN), Results(QUESTIONS, BEGIN)
    for results, numbers in ((mine, kinds), (theirs, ())):
        emitted: list[bytes] = []
        telling = Telling(emitted.append, replies=False, kinds=numbers)
        telling.begin(BEGIN)
        for question, flags, planned, late, took in found:
            asked = Asked(b"", question, BEGIN + planned, BEGIN + planned + late)
            if took in (LOST, NOT_SENT):
                telling.without_reply(asked, took)
            else:
                telling.reply(asked, b"\0\0" + flags.to_bytes(2, "big"), asked.sent + took)
        telling.tell()
        for kind, content in Frames().feed(b"".join(emitted)):
            if kind == COUNTS:
                results.add_counts(content)
            else:
                results.add(unpack_outcomes(content))
    assert counted(mine) == counted(theirs)


@compiled
def test_answers_that_are_to_be_judged_are_told_as_well() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=True, kinds=[0])
    telling.begin(5)
    telling.reply(Asked(b"", 0, 10, 20), MESSAGE, 30)
    telling.without_reply(Asked(b"", 0, 10, 20), LOST)
    telling.tell()
    found = dict(Frames().feed(b"".join(emitted)))
    assert list(unpack_outcomes(found[ANSWERS])) == [(0, 0x8403, 1, 10, 20, 30)]
    assert set(found) == {REPLY, COUNTS, ANSWERS}


@compiled
def test_a_question_without_a_kind() -> None:
    assert LoadCounts is not None
    with pytest.raises(ValueError, match="there is no such question"):
        LoadCounts([0], 0).add(1, 0, 0, 0, 0)


def test_told_in_time() -> None:
    emitted: list[bytes] = []
    telling = Telling(emitted.append, replies=False)
    telling.fact(Fact(LATE))
    telling.tell_at(REPORT_EVERY - 1)
    assert not emitted
    telling.tell_at(REPORT_EVERY)
    assert emitted
