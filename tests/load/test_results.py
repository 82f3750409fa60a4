"""What is counted of a run, and that counters of two runs add up to those of one, through the report as JSON."""

from __future__ import annotations

import gc
import sys

import msgspec
import pytest
from hypothesis import strategies as st

from hsdns.load.counters import (
    CLOSED,
    ENDS,
    FAILED,
    FOUND,
    MOST_REASONS,
    NONE,
    OTHERS,
    RESET,
    UNFINISHED,
    ConnectionsReport,
    Lookup,
    LookupsReport,
    count,
)
from hsdns.load.histogram import PERCENTS, Histogram, Percentile, name_of
from hsdns.load.outcome import (
    LOST,
    NOT_SENT,
)
from hsdns.load.pods import FORMS
from hsdns.load.questions import Question
from hsdns.load.results import (
    MOST_EVENTS,
    OPEN,
    Counts,
    PropagationReport,
    Results,
    Second,
    limit_counts,
    measured_of,
    with_lookups,
)
from hsdns.load.schedule import SECOND
from hsdns.load.verify.judge import BEHIND, RIGHT, STALE, UNDECIDED, Verdict
from hsdns.load.verify.verifier import Judged
from hsdns.resolver import MODELS
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from tests.load.verify.test_propagation import shown

BEGIN = 7 * SECOND
MS = SECOND // 1000
NAME = Name.from_text("www.a.test.")
QUESTIONS = [Question(NAME, RRType.A, "service"), Question(NAME, RRType.SRV, "srv")]
COUNT = st.integers(0, 65_535)
TIME = st.integers(0, 10**12)
REASONS = st.dictionaries(st.sampled_from(["", CLOSED, "x"]), st.integers(1, 9))
CONNECTIONS = st.builds(
    ConnectionsReport, opened=st.integers(1, 65_535), most_open=COUNT, not_opened=REASONS, ended=REASONS, without_answer=REASONS,
    asked_again=COUNT, late=COUNT, fell=COUNT, slots=st.lists(st.tuples(st.integers(0, 99), st.integers(1, 99)), max_size=3).map(Histogram),
)  # fmt: skip
LOOKUPS = st.lists(
    st.builds(
        lambda *counts: Lookup(*counts[:8], *(counts[7] + each for each in counts[8:])),
        st.sampled_from(list(MODELS)), st.sampled_from(list(FORMS)), st.sampled_from(ENDS),
        COUNT, COUNT, COUNT, COUNT, TIME, TIME, TIME,
    ),
    max_size=8,
)  # fmt: skip
SHOWN = st.lists(
    st.builds(
        shown, st.none() | st.floats(0, 70), st.none() | st.floats(0, 70),
        adds=st.booleans(), removes=st.booleans(), at=st.sampled_from([100.5, 101.0, 200.25]),
    ),
    max_size=8,
)  # fmt: skip
# Lookups that ended in each of the ways.
FINISHED = Lookup("glibc", "name", FOUND, 4, 2, 0, 0, 0, 50_000, 3 * MS)
LOOKED_UP = [
    FINISHED,
    msgspec.structs.replace(
        FINISHED, resolver="go", form="full", end=NONE, queries=8, wasted=8, over_tcp=2
    ),
    msgspec.structs.replace(FINISHED, end=UNFINISHED, again=3),
    msgspec.structs.replace(FINISHED, end=FAILED),
]


def lookups(*found: Lookup) -> LookupsReport:
    counted = LookupsReport()
    for each in found:
        counted.add(each)
    return counted


def stated(found: LookupsReport, lateness: Histogram | None = None) -> LookupsReport:
    report = found.finish(lateness or Histogram(), refused=False)
    assert report is not None
    return report


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
    assert one.counts == Counts(2, 2, 0, 2, 0, 0, {"NOERROR": 1, "NXDOMAIN": 1})
    assert two.counts == Counts(3, 2, 1, 1, 1, 1, {"NOERROR": 1})
    assert one.slots.percentiles((50, 100)) == [3001, 5003]
    assert one.late_slots.percentiles((50, 100)) == [1000, 2000]
    a, srv = results.kinds["service", RRType.A], results.kinds["srv", RRType.SRV]
    assert a.counts == Counts(3, 2, 1, 1, 1, 0, {"NOERROR": 1})
    assert srv.counts == Counts(2, 2, 0, 2, 0, 1, {"NOERROR": 1, "NXDOMAIN": 1})
    whole = results.whole()
    assert whole.counts == Counts(5, 4, 1, 3, 1, 1, {"NOERROR": 2, "NXDOMAIN": 1})
    assert whole.slots.total == 3


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
        each.slots.slots.update(range(1000))
        each.late_slots.slots.update(range(100))
    sizes = [octets(each.slots) + octets(each.late_slots) for each in results.seconds.values()]
    assert max(sizes[:OPEN]) < 1100 * 8 + 1000 < min(sizes[OPEN:]) / 4, sizes
    results.second(0).slots.slots[7] += 1  # of a query that was answered late
    assert results.whole().slots.slots[7] == 2 * OPEN + 1


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
    assert results.second(0).verdicts == {RIGHT: 1}
    assert results.second(1).verdicts == {STALE: 2, UNDECIDED: 1}
    assert (results.second(0).changes, results.second(1).changes) == (1, 2)
    assert results.second(1).worst_age_ms == 500
    found = results.report().verdicts
    assert found is not None
    found.finish(results.whole(), 0.1)
    (stale,) = found.stale_names
    assert (stale.type, stale.count, stale.worst_age_ms, stale.first_s) == ("SRV", 2, 500, 1.25)
    assert (found.old_since_s, found.old_until_s, found.old_for_s) == (1.0, 1.5, 0.5)
    assert (found.undecided, found.changes, found.slack_ms) == ({BEHIND: 1}, 3, 100)
    assert (found.stale_slots.total, found.behind_slots.percentile(100)) == (2, 2000)


@pytest.mark.parametrize("begin", [7 * SECOND, 123_456_789_012_345, 10**15 + 1])
def test_what_is_asked_at_the_begin_of_a_second_belongs_to_it(begin: int) -> None:
    """Though the seconds of the clock are not exact: they are rounded to nanoseconds."""
    results = Results(QUESTIONS, begin)
    for number in range(100):
        planned = (begin + number * SECOND) / SECOND
        results.add_verdict(Judged(0, planned, planned, Verdict(RIGHT)))
    results.add_changes([(begin + number * SECOND) / SECOND for number in range(100)])
    found = {
        number: (each.verdicts[RIGHT], each.changes) for number, each in results.seconds.items()
    }
    assert found == dict.fromkeys(range(100), (1, 1))


def test_connections() -> None:
    found = ConnectionsReport()
    for nanoseconds in (1_500_000, 2_500_000, 2_500_000):
        found.open_after(nanoseconds)
    count(found.ended, RESET)
    found.open_after(2_500_000)
    for why in ("a", "b", "b"):
        count(found.not_opened, why)
    assert found.finish() is found
    assert (found.opened, found.open, found.most_open) == (4, 3, 3)
    assert found.setup[0] == Percentile("p50", 2501)  # the highest of its slot
    assert (list(found.not_opened.items()), found.ended) == ([("b", 2), ("a", 1)], {RESET: 1})
    assert ConnectionsReport().finish() is None


def test_reasons_are_bounded() -> None:
    found = ConnectionsReport()
    for at in range(MOST_REASONS + 5):
        count(found.without_answer, f"HTTP status {at}")
    assert len(found.without_answer) == MOST_REASONS + 1
    assert found.without_answer[OTHERS] == 5


def test_figures_of_lookups() -> None:
    """One that is not over is slower than all; a generator that was late has none."""
    assert LookupsReport().finish(Histogram(), refused=False) is None
    found = stated(lookups(FINISHED, FINISHED, LOOKED_UP[2]))
    (part,) = found.by_resolver
    assert (part.name, part.median_queries, part.most_queries) == ("glibc", 4, 4)
    assert (part.latency[0], part.latency[-1]) == (
        Percentile("p50", 3001),
        Percentile("max", None, "lost"),
    )
    assert found.lateness[0] == Percentile("p50", 50)
    late = stated(lookups(FINISHED), Histogram([(2000, 1)]))
    assert late.whole.latency[0] == Percentile("p50", None, "generator")


def test_figures_of_changes() -> None:
    """A percentile needs as many changes; a long run has some of its events."""
    ten = PropagationReport.of([shown()] * 10, 10)
    assert [each.name for each in ten.first_new if each.us is not None] == ["p50", "p90", "max"]
    assert {each.why for each in ten.first_new if each.us is None} == {"few"}
    many = PropagationReport.of([shown()] * 1000, 1000)
    assert [each.name for each in many.first_new if each.us is None] == ["p99.99"]
    every = [shown(at=100.0 + number) for number in range(3 * MOST_EVENTS)]
    found = PropagationReport.of(every, len(every))
    assert ([each.at_s for each in found.events[:3]], len(found.events)) == ([0, 3, 6], MOST_EVENTS)
    nothing = PropagationReport.of([], 0)
    assert (nothing.events, {each.why for each in nothing.first_new}) == ([], {"few", "none"})


def test_values_of_limits() -> None:
    few = Second(verdicts={RIGHT: 7, STALE: 1, UNDECIDED: 2})
    for rcode, number in enumerate((5, 0, 3, 4, 0, 2)):
        few.counts.answer(rcode, number)
    few.counts.lose(6)
    few.counts.truncated = 1
    few.late_slots.record(0)
    few.slots.record(1000)
    found = measured_of(few)
    assert found.counts == limit_counts(few) == {
        "loss": (6, 20), "errors": (5, 14), "servfail": (3, 14), "refused": (2, 14), "nxdomain": (4, 14),
        "truncated": (1, 14), "right": (7, 10), "stale": (1, 10), "early": (0, 10), "missing": (0, 10),
        "extra": (0, 10), "wrong": (0, 10), "undecided": (2, 10),
    }  # fmt: skip
    assert (found.latency[0].why, found.lateness[0].us) == ("lost", 0)
    assert (found.lookups, found.knee) == ((), (0.0, float("inf")))
    found = with_lookups(found, stated(lookups(*LOOKED_UP)))
    assert found.counts["lookup.failed"] == found.counts["lookup.unfinished"] == (1, 4)
    assert found.counts["loss"] == (6, 20)
    lost = [Percentile(name_of(percent), None, "lost") for percent in PERCENTS[1:]]
    assert found.lookups == [Percentile("p50", 3001), *lost]
    without = with_lookups(measured_of(few), None)
    assert (without.counts["lookup.failed"], without.lookups) == ((0, 0), [])
