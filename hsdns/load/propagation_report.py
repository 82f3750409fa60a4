"""What a report says of how long changes took to show.

Path: propagation.py -> here -> report.py.
Rule: a percentile stands only if there were enough changes that one of them is above it: a hundred for p99.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.load.figures import NOTHING, PERCENTS, name_of
from hsdns.load.histogram import Histogram
from hsdns.load.propagation import Shown
from hsdns.load.questions import Question
from hsdns.load.report import EventReport, Percentile, PropagationReport
from hsdns.wire.iana import type_to_text

FEW: Final = "few"
NEVER: Final = "never"
MOST_EVENTS: Final = 2000  # that a report has


def propagation_report(
    shown: Sequence[Shown], questions: Sequence[Question], followed: int, begin: float
) -> PropagationReport:
    """The report of what has shown at a server, in a run that began at `begin` (seconds), of `followed` changes."""
    adding = [each.first_new for each in shown if each.event.adds]
    removing = [each.last_old for each in shown if each.event.removes]
    step = -(-len(shown) // MOST_EVENTS) or 1
    return PropagationReport(
        followed,
        followed - len(shown),
        adding.count(None),
        removing.count(None),
        _figures([max(0.0, each.seen) for each in shown]),
        _figures(adding),
        _figures(removing),
        _figures([each.resolution for each in shown if each.first_new is not None]),
        [_event(each, questions, begin) for each in shown[::step]],
    )


def _event(shown: Shown, questions: Sequence[Question], begin: float) -> EventReport:
    question = questions[shown.event.question]
    return EventReport(
        round(shown.at - begin, 6),
        question.name.to_text(),
        type_to_text(question.qtype),
        shown.event.adds,
        shown.event.removes,
        _ms(max(0.0, shown.seen)),
        None if shown.first_new is None else _ms(shown.first_new),
        None if shown.last_old is None else _ms(shown.last_old),
        _ms(shown.resolution),
    )


def _figures(found: Sequence[float | None]) -> list[Percentile]:
    """Percentiles of seconds; None is slower than any."""
    histogram = Histogram()
    for each in found:
        if each is not None:
            histogram.record(round(each * 1e6))
    never = found.count(None)
    figures = []
    for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS, never), strict=True):
        if percent < 100 and round(len(found) * (100 - percent), 6) < 100:
            figures.append(Percentile(name_of(percent), None, FEW))
        else:
            why = "" if us is not None else NEVER if never else NOTHING
            figures.append(Percentile(name_of(percent), us, why))
    return figures


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
