"""`hsdns load -find-knee`: the highest rate at which limits hold.

Path: load.py -> here -> knee.py returns the next step; each step is a separate run.
Rule 1: the outcome of each step is shown on standard error, and is in the report.
Rule 2: the figures of the report are those of the longest step at the rate that was found, or else of the last step.
Rule 3: Ctrl-C, SIGTERM, or a server that no longer answers ends the search; what is known by then is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from hsdns.cli.command import complain
from hsdns.load.errors import LoadError
from hsdns.load.knee import HELD, SHORTEST, KneeSearch, Step, outcome_of, queries_for
from hsdns.load.limits import Limit
from hsdns.load.schedule import Stage

if TYPE_CHECKING:
    from hsdns.load.cli.settings import LoadSettings
    from hsdns.load.report import KneeReport, KneeStep, PlanReport
    from hsdns.load.results import Results

PATIENCE: Final = 10.0  # seconds for a server to answer again after a step
MOST_LATE: Final = 0.05  # share of a step: the p99 of lateness above which its rate was not kept
Load = Callable[["LoadSettings"], "tuple[list[Results], PlanReport]"]


class Found(NamedTuple):
    """The result of a search, and the run whose figures are reported."""

    knee: KneeReport
    servers: list[Results]
    plan: PlanReport


def find_knee(settings: LoadSettings, load: Load) -> Found:
    """Search for the knee; `load` carries out a run."""
    from hsdns.load.report import KneeReport
    from hsdns.load.run import INTERRUPTED

    flags, limits = settings.flags, settings.knee
    shortest = SHORTEST if flags.time is None else flags.time
    first = settings.schedule.stages[0].first
    search = KneeSearch(first, float(flags.max_rate), queries_for(limits), shortest)
    steps: list[KneeStep] = []
    kept: dict[float, tuple[Step, list[Results], PlanReport]] = {}
    newest = 0.0
    while (step := search.step) is not None:
        try:
            servers, plan = load(_at(settings, step, wait=PATIENCE if steps else 0.0))
        except LoadError as error:  # the server no longer answers; report what is known
            if not steps:
                raise
            complain(error)
            break
        if servers[0].server.ended == INTERRUPTED:
            if not steps:
                kept[step.rate] = step, servers, plan
                newest = step.rate
            break
        report = _step_report(limits, step, servers[0])
        steps.append(report)
        complain(_line(report))
        newest = step.rate
        before = kept.get(step.rate)
        if before is None or (report.outcome == HELD and step.seconds >= before[0].seconds):
            kept[step.rate] = step, servers, plan
        search.step_ended(report.outcome)
    found = search.knee()
    complain(found.sentence)
    _, servers, plan = kept[newest if found.holds is None else found.holds]
    return Found(KneeReport(*found, [limit.text for limit in limits], steps), servers, plan)


def _at(settings: LoadSettings, step: Step, wait: float) -> LoadSettings:
    stages = (Stage(step.seconds, step.rate, step.rate),)
    schedule = msgspec.structs.replace(settings.schedule, stages=stages)
    return settings._replace(schedule=schedule, wait=max(settings.wait, wait))


def _step_report(limits: Sequence[Limit], step: Step, server: Results) -> KneeStep:
    from hsdns.load.report import KneeStep
    from hsdns.load.results import measured_of
    from hsdns.load.run import FELL_BEHIND

    whole = server.whole()
    measured = measured_of(whole)
    late = whole.late_slots.percentile(99) or 0
    kept = server.server.ended != FELL_BEHIND and late <= step.seconds * 1e6 * MOST_LATE
    outcome = outcome_of(limits, measured, answered=whole.counts.answered, kept=kept)
    counts = whole.counts
    return KneeStep(
        step.rate,
        step.seconds,
        outcome,
        counts.sent,
        counts.lost,
        [*measured.latency],
        [*measured.lateness],
    )


def _line(step: KneeStep) -> str:
    from hsdns.load.output.words import knee_step

    return f"{step.rate:.10g}/s for {step.seconds:g} s: {knee_step(step)}"
