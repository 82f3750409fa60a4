import gc
import sys
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.histogram import Histogram
from hsdns.load.outcome import (
    LATENCY,
    LATENESS,
    LOST,
    LOST_COUNT,
    NOT_SENT,
    NOT_SENT_COUNT,
    OF_KIND,
    RCODE,
    TRUNCATED,
)
from hsdns.load.questions import Question
from hsdns.load.results import OPEN, Part, Results, kind_numbers
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, UNDECIDED, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

BEGIN = 7 * SECOND
MS = SECOND // 1000
NAME = Name.from_text("www.a.test.")
QUESTIONS = [Question(NAME, RRType.A, "service"), Question(NAME, RRType.SRV, "srv")]


def test_counts() -> None:
    results = Results(QUESTIONS, BEGIN)
    first, second = BEGIN + 10 * MS, BEGIN + SECOND
    results.add(
        [
            (0, 0x8400, 0, first, first + 1 * MS, first + 3 * MS),
            (1, 0x8403, 0, first, first + 2 * MS, first + 5 * MS),
            (1, 0x8600, 0, second, second, second + 1 * MS),
            (0, 0, 0, second, second, LOST),
            (0, 0, 0, second, second, NOT_SENT),
        ]
    )
    one, two = results.second(0), results.second(1)
    assert (dict(one.rcodes), one.lost, one.not_sent, one.truncated) == ({0: 1, 3: 1}, 0, 0, 0)
    assert (dict(two.rcodes), two.lost, two.not_sent, two.truncated) == ({0: 1}, 1, 1, 1)
    assert (one.sent, one.answered, two.sent, two.answered) == (2, 2, 2, 1)
    assert one.latency.percentiles((50, 100)) == [3001, 5003]
    assert one.lateness.percentiles((50, 100)) == [1000, 2000]
    a, srv = results.kinds["service", RRType.A], results.kinds["srv", RRType.SRV]
    assert (a.answered, a.lost, a.not_sent, srv.answered, srv.truncated) == (1, 1, 1, 2, 1)
    whole = results.whole()
    assert (whole.sent, whole.answered, whole.lost, whole.not_sent) == (4, 3, 1, 1)
    assert whole.latency.total == 3


def test_counts_of_the_compiled_sender() -> None:
    results = Results(QUESTIONS, BEGIN)
    kind = OF_KIND
    rows = [
        (LATENESS, 1, 5, 3),
        (LATENCY, 1, 9, 2),
        (LATENCY + kind, 1, 9, 2),
        (RCODE, 1, 3, 2),
        (RCODE + kind, 1, 3, 2),
        (LOST_COUNT, 1, 0, 1),
        (LOST_COUNT + kind, 0, 0, 1),
        (NOT_SENT_COUNT, 0, 0, 4),
        (NOT_SENT_COUNT + kind, 0, 0, 4),
        (TRUNCATED, 1, 0, 1),
        (TRUNCATED + kind, 1, 0, 1),
    ]
    octets = b"".join(pack("=BIII", *row) for row in rows)
    results.add_counts(octets)
    results.add_counts(octets[:13])
    zero, one = results.second(0), results.second(1)
    assert (zero.not_sent, zero.sent) == (4, 0)
    assert (dict(one.rcodes), one.lost, one.truncated) == ({3: 2}, 1, 1)
    assert (one.latency.pairs(), one.lateness.pairs()) == ([(9, 2)], [(5, 6)])
    a, srv = results.kinds["service", RRType.A], results.kinds["srv", RRType.SRV]
    assert (a.lost, a.not_sent, dict(srv.rcodes), srv.truncated) == (1, 4, {3: 2}, 1)
    assert srv.latency.pairs() == [(9, 2)]


def octets(found: Histogram) -> int:
    objects = {id(each): each for each in gc.get_referents(found) if not isinstance(each, type)}
    inner = {
        id(each): each for each in gc.get_referents(*objects.values()) if not isinstance(each, type)
    }
    return sum(map(sys.getsizeof, (objects | inner).values()))


def test_histograms_of_old_seconds_take_little_memory() -> None:
    results = Results(QUESTIONS, BEGIN)
    for number in range(2 * OPEN):
        each = results.second(number)
        each.latency.slots.update(range(1000))
        each.lateness.slots.update(range(100))
    sizes = [octets(each.latency) + octets(each.lateness) for each in results.seconds.values()]
    assert max(sizes[:OPEN]) < 1100 * 8 + 1000 < min(sizes[OPEN:]) / 4, sizes
    results.second(0).latency.slots[7] += 1  # of a query that was answered late
    assert results.whole().latency.slots[7] == 2 * OPEN + 1


def test_kinds_are_numbered_in_the_order_in_which_they_appear() -> None:
    assert kind_numbers([*QUESTIONS, QUESTIONS[0]]) == [0, 1, 0]
    assert list(Results(QUESTIONS, BEGIN).kinds) == [("service", RRType.A), ("srv", RRType.SRV)]


def test_a_question_that_is_learnt() -> None:
    results = Results([], BEGIN)
    for question in QUESTIONS:
        results.add_question(question)
    results.add([(1, 0x8400, 0, BEGIN, BEGIN, BEGIN + MS)])
    assert results.questions == QUESTIONS
    assert results.kinds["srv", RRType.SRV].answered == 1
    assert results.kinds["service", RRType.A].answered == 0


def test_verdicts() -> None:
    results = Results(QUESTIONS, BEGIN)
    for planned, verdict in [
        (7.5, Verdict(RIGHT)),
        (8.5, Verdict(STALE, 0.5)),
        (8.25, Verdict(STALE, 0.25)),
        (8.5, Verdict(UNDECIDED, 0.002, BEHIND)),
    ]:
        results.add_verdict(Judged(1, planned, planned, verdict))
    results.add_changes([6.0, 7.0, 8.0, 8.5])
    assert dict(results.second(0).verdicts) == {RIGHT: 1}
    assert dict(results.second(1).verdicts) == {STALE: 2, UNDECIDED: 1}
    assert (results.second(0).changes, results.second(1).changes) == (1, 2)
    assert results.second(1).worst_age == 0.5
    stale = results.stale[1]
    assert (stale.count, stale.worst_age, stale.first) == (2, 0.5, 1.25)
    assert (results.old.since, results.old.until) == (1.0, 1.5)
    assert dict(results.reasons) == {BEHIND: 1}
    assert (results.ages.total, results.behind.percentile(100)) == (2, 2000)


TIMES = st.integers(0, 5 * SECOND)
OUTCOMES = st.lists(
    st.builds(
        lambda question, rcode, planned, late, took: (
            question,
            0x8400 | rcode,
            0,
            BEGIN + planned,
            BEGIN + planned + late,
            took if took <= 0 else BEGIN + planned + late + took,
        ),
        st.integers(0, 1),
        st.sampled_from([0, 2, 3]),
        TIMES,
        TIMES,
        st.sampled_from([LOST, NOT_SENT]) | st.integers(1, SECOND),
    ),
    max_size=12,
)
AGES = st.lists(st.tuples(st.integers(0, 1), st.floats(0.1, 9)), max_size=4)


def results_of(outcomes: list[tuple[int, int, int, int, int, int]], ages: list[tuple[int, float]]) -> Results:  # fmt: skip
    results = Results(QUESTIONS, BEGIN)
    results.add(outcomes)
    for question, age in ages:
        results.add_verdict(Judged(question, 8.0 + age, 8.0 + age, Verdict(STALE, age)))
    return results


def facts(part: Part) -> tuple[object, ...]:
    return dict(part.rcodes), part.lost, part.not_sent, part.truncated, part.latency.pairs()


@given(first=OUTCOMES, second=OUTCOMES, ages=AGES, more_ages=AGES)
def test_merged_are_those_of_one_run(
    first: list[tuple[int, int, int, int, int, int]],
    second: list[tuple[int, int, int, int, int, int]],
    ages: list[tuple[int, float]],
    more_ages: list[tuple[int, float]],
) -> None:
    one = results_of(first + second, ages + more_ages)
    merged = results_of(first, ages)
    merged.merge(results_of(second, more_ages))
    assert {number: facts(each) for number, each in merged.seconds.items()} == {number: facts(each) for number, each in one.seconds.items()}  # fmt: skip
    for number, each in one.seconds.items():
        assert merged.seconds[number].lateness == each.lateness
        assert merged.seconds[number].worst_age == each.worst_age
        assert +merged.seconds[number].verdicts == +each.verdicts
    assert {kind: facts(each) for kind, each in merged.kinds.items()} == {kind: facts(each) for kind, each in one.kinds.items()}  # fmt: skip
    assert merged.ages == one.ages
    assert {which: (each.count, each.worst_age, each.first) for which, each in merged.stale.items()} == {
        which: (each.count, each.worst_age, each.first) for which, each in one.stale.items()
    }  # fmt: skip


@pytest.mark.parametrize("begin", [7 * SECOND, 123_456_789_012_345, 10**15 + 1])
def test_what_is_asked_at_the_begin_of_a_second_belongs_to_it(begin: int) -> None:
    """Though the seconds of the clock are not exact: they are rounded to nanoseconds."""
    results = Results(QUESTIONS, begin)
    for number in range(100):
        planned = (begin + number * SECOND) / SECOND
        results.add_verdict(Judged(0, planned, planned, Verdict(RIGHT)))
    results.add_changes([(begin + number * SECOND) / SECOND for number in range(100)])
    found = {number: (second.verdicts[RIGHT], second.changes) for number, second in results.seconds.items()}  # fmt: skip
    assert found == dict.fromkeys(range(100), (1, 1))
