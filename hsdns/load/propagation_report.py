"""The part of a report about how long changes took to show.

Path: propagation.py -> here -> propagation_counts.py, report.py.
Rule: changes that never showed are in no histogram, and are counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsdns.load.histogram import Histogram
from hsdns.load.propagation import Shown
from hsdns.load.propagation_counts import EventReport, PropagationCounts, PropagationReport
from hsdns.load.questions import Question
from hsdns.wire.iana import type_to_text


def propagation_report(
    shown: Sequence[Shown], questions: Sequence[Question], followed: int, begin: float
) -> PropagationReport:
    """The report of the `shown` changes of a server, of `followed` changes in a run that began at `begin` (seconds)."""
    found = PropagationCounts()
    found.followed, found.left_out = followed, followed - len(shown)
    for each in shown:
        _record(found.seen, max(0.0, each.seen))
        if each.event.adds:
            found.never_new += _record(found.first_new, each.first_new)
        if each.event.removes:
            found.never_gone += _record(found.last_old, each.last_old)
        if each.first_new is not None:
            _record(found.resolution, each.resolution)
        found.events.append(_event(each, questions, begin))
    return found.report()


def _record(histogram: Histogram, seconds: float | None) -> int:
    """Record a time; return 1 if it is None, for never."""
    if seconds is None:
        return 1
    histogram.record(round(seconds * 1e6))
    return 0


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


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
