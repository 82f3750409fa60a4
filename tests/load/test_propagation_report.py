from hsdns.load.follower import Event
from hsdns.load.judge import Answer
from hsdns.load.propagation import Shown
from hsdns.load.propagation_report import MOST_EVENTS, propagation_report
from hsdns.load.questions import Question
from hsdns.load.report import EventReport, Percentile
from hsdns.wire.iana import RRType
from tests.load.test_report import NAME

QUESTIONS = [Question(NAME, RRType.A, "headless")]
NONE, SOME = Answer(0), Answer(0, frozenset({(1, b"a")}))


def shown(
    first_new: float | None = 0.002,
    last_old: float | None = 0.001,
    *,
    adds: bool = True,
    removes: bool = True,
    at: float = 100.5,
) -> Shown:
    event = Event(0, (b"shop", b"web"), 0, 1, at, NONE, SOME)
    event.adds, event.removes = adds, removes
    return Shown(event, at, -0.0001, first_new, last_old, 0.0015)


def test_additions_and_removals_are_told_apart() -> None:
    found = propagation_report(
        [
            shown(adds=True, removes=False),
            shown(None, None, adds=False, removes=True),
            shown(0.004, 0.003),
        ],
        QUESTIONS,
        5,
        100.0,
    )
    assert (found.followed, found.left_out, found.never_new, found.never_gone) == (5, 2, 0, 1)
    assert (found.first_new[0], found.first_new[-1]) == (Percentile("p50", 2000), Percentile("max", 4001))  # fmt: skip
    assert (found.last_old[0], found.last_old[-1]) == (Percentile("p50", 3001), Percentile("max", None, "never"))  # fmt: skip
    assert found.seen[0] == Percentile("p50", 0)
    assert found.events[0] == EventReport(0.5, NAME.to_text(), "A", True, False, 0, 2, 1, 1.5)
    assert (found.events[1].first_new_ms, found.events[1].last_old_ms) == (None, None)


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
