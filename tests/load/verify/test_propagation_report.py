from hsdns.load.histogram import Percentile
from hsdns.load.questions import Question
from hsdns.load.results import EventReport
from hsdns.load.verify.follow import Event
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.propagation import Shown, propagation_report
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

NAME = Name.from_text("web.shop.svc.cluster.local.")
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
            shown(None, None, adds=False, removes=True, at=100.6),
            shown(0.004, 0.003, at=100.7),
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
