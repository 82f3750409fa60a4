import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hsdns.load.report import MOST_EVENTS, PropagationReport, propagation_counts
from hsdns.load.verify.propagation import Shown, propagation_report
from tests.load.verify.test_propagation_report import QUESTIONS, shown
from tests.support.effort import tries

TIMES = st.none() | st.floats(0, 70)
SHOWN = st.builds(
    shown, TIMES, TIMES, adds=st.booleans(), removes=st.booleans(), at=st.sampled_from([100.5, 101.0, 200.25])
)  # fmt: skip


def told(found: list[Shown], left_out: int = 0) -> PropagationReport:
    report = propagation_report(found, QUESTIONS, len(found) + left_out, 100.0)
    return msgspec.json.decode(msgspec.json.encode(report), type=PropagationReport)


@settings(max_examples=tries(20))
@given(st.lists(st.tuples(st.lists(SHOWN, max_size=8), st.integers(0, 3)), min_size=1, max_size=4))
def test_merged_is_what_one_would_have_told(parts: list[tuple[list[Shown], int]]) -> None:
    """To the last digit, in any order."""
    alone = told([each for found, _ in parts for each in found], sum(left for _, left in parts))
    for order in (parts, parts[::-1]):
        first, *rest = [propagation_counts(told(*part)) for part in order]
        for each in rest:
            first.merge(each)
        assert first.report() == alone


@settings(max_examples=tries(20))
@given(st.lists(SHOWN, max_size=12))
def test_a_report_has_all_that_was_counted(found: list[Shown]) -> None:
    report = told(found, 2)
    assert propagation_counts(report).report() == report


def test_merged_reports_have_some_of_their_events() -> None:
    every = [told([shown(at=float(number + part)) for number in range(MOST_EVENTS)]) for part in (0, 1)]  # fmt: skip
    whole = propagation_counts(every[0])
    whole.merge(propagation_counts(every[1]))
    found = whole.report()
    assert (found.followed, len(found.events)) == (2 * MOST_EVENTS, MOST_EVENTS)
    assert sum(count for _, count in found.first_new_slots) == 2 * MOST_EVENTS


def test_a_percentile_needs_as_many_changes() -> None:
    ten = propagation_report([shown()] * 10, QUESTIONS, 10, 0.0)
    assert [each.name for each in ten.first_new if each.us is not None] == ["p50", "p90", "max"]
    assert {each.why for each in ten.first_new if each.us is None} == {"few"}
    many = propagation_report([shown()] * 1000, QUESTIONS, 1000, 0.0)
    assert [each.name for each in many.first_new if each.us is None] == ["p99.99"]


def test_a_long_run_has_some_of_its_events() -> None:
    every = [shown(at=float(number)) for number in range(3 * MOST_EVENTS)]
    found = propagation_report(every, QUESTIONS, len(every), 0.0)
    assert [each.at_s for each in found.events[:3]] == [0, 3, 6]
    assert len(found.events) == MOST_EVENTS


def test_nothing_was_followed() -> None:
    found = propagation_report([], QUESTIONS, 0, 0.0)
    assert found.events == []
    assert {each.why for each in found.first_new} == {"few", "none"}
