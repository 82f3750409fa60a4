"""The report of a run, as values: written as JSON, and the input of text and page.

Path: run.py -> here (make_report) -> output/text.py, output/page.py, or JSON as docs/load.schema.json describes it.
Rule 1: times in microseconds are whole numbers; None if a figure is refused, and `why` is the reason.
Rule 2: Report has what all servers of a run share, a ServerReport what was measured of one server.

How long changes took to show, as counts that can be added, and as the part of a report made from them:
Rule 1: a percentile is stated only if there are enough changes for one to be above it: a hundred for p99.
Rule 2: each generator that followed a change counts it, because it may show at different times to each.
Rule 3: counts of two generators are added without loss (`merge`); at most MOST_EVENTS of their events are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.histogram import (
    NOTHING,
    PERCENTS,
    Figure,
    Histogram,
    Percentile,
    Slots,
    all_sent,
    latency_figures,
    lateness_figures,
    name_of,
    refusal,
)
from hsdns.load.limits import KNEE, Limit, Measured, figure_of, has_aborted, is_met, knee_rate
from hsdns.load.plan import StreamPlan
from hsdns.load.results import (
    ConnectionsReport,
    LookupsReport,
    OldSpan,
    Part,
    Results,
    Second,
    StaleName,
    connections_report,
    lookups_report,
    measured_of,
    with_lookups,
)
from hsdns.load.verify.judge import VERDICTS
from hsdns.wire.iana import rcode_to_text, type_to_text

FEW: Final = "few"
NEVER: Final = "never"
MOST_EVENTS: Final = 2000  # in a report


class EventReport(msgspec.Struct, frozen=True):
    """A change that was followed: when it was written (seconds after the begin), and milliseconds from then on.

    `seen_ms` is when the generator's watch saw it, `first_new_ms` and `last_old_ms` are None for never; `resolution_ms`
    is the time between the probes around the first new answer.
    """

    at_s: float
    name: str
    type: str
    adds: bool
    removes: bool
    seen_ms: float
    first_new_ms: float | None
    last_old_ms: float | None
    resolution_ms: float


class PropagationReport(msgspec.Struct, frozen=True):
    """How long changes took to show; `first_new` for changes that add records, `last_old` for those that remove some.

    `left_out` changes were followed for too short a time to count; `events` is an even selection.  Slots belong to the
    percentiles.
    """

    followed: int
    left_out: int
    never_new: int
    never_gone: int
    seen: list[Percentile]
    first_new: list[Percentile]
    last_old: list[Percentile]
    resolution: list[Percentile]
    events: list[EventReport]
    seen_slots: Slots
    first_new_slots: Slots
    last_old_slots: Slots
    resolution_slots: Slots


class PropagationCounts:
    """Changes that were followed; histograms in microseconds, without those that never showed."""

    def __init__(self) -> None:
        self.followed = 0
        self.left_out = 0
        self.never_new = 0
        self.never_gone = 0
        self.seen = Histogram()
        self.first_new = Histogram()
        self.last_old = Histogram()
        self.resolution = Histogram()
        self.events: list[EventReport] = []

    def merge(self, other: PropagationCounts) -> None:
        """Add the counts of another generator."""
        self.followed += other.followed
        self.left_out += other.left_out
        self.never_new += other.never_new
        self.never_gone += other.never_gone
        self.seen.merge(other.seen)
        self.first_new.merge(other.first_new)
        self.last_old.merge(other.last_old)
        self.resolution.merge(other.resolution)
        self.events += other.events

    def report(self) -> PropagationReport:
        """The part of a report with these counts."""
        events = sorted(self.events, key=_order)
        step = -(-len(events) // MOST_EVENTS) or 1
        return PropagationReport(
            self.followed,
            self.left_out,
            self.never_new,
            self.never_gone,
            _figures(self.seen),
            _figures(self.first_new, self.never_new),
            _figures(self.last_old, self.never_gone),
            _figures(self.resolution),
            events[::step],
            self.seen.pairs(),
            self.first_new.pairs(),
            self.last_old.pairs(),
            self.resolution.pairs(),
        )


def propagation_counts(report: PropagationReport) -> PropagationCounts:
    """The counts that a report was made from, except the events that it omits."""
    found = PropagationCounts()
    found.followed, found.left_out = report.followed, report.left_out
    found.never_new, found.never_gone = report.never_new, report.never_gone
    found.seen = Histogram(report.seen_slots)
    found.first_new = Histogram(report.first_new_slots)
    found.last_old = Histogram(report.last_old_slots)
    found.resolution = Histogram(report.resolution_slots)
    found.events = list(report.events)
    return found


def _order(event: EventReport) -> tuple[float, bytes]:
    """The sort key of an event: its time, then a value that does not depend on which generator followed it."""
    return event.at_s, msgspec.json.encode(event)


def _figures(histogram: Histogram, never: int = 0) -> list[Percentile]:
    """Percentiles; `never` more changes are slower than any."""
    whole, figures = histogram.total + never, []
    for percent, us in zip(PERCENTS, histogram.percentiles(PERCENTS, never), strict=True):
        if percent < 100 and round(whole * (100 - percent), 6) < 100:
            figures.append(Percentile(name_of(percent), None, FEW))
        else:
            why = "" if us is not None else NEVER if never else NOTHING
            figures.append(Percentile(name_of(percent), us, why))
    return figures


FORMAT = "hsdns load 2"


class StageReport(msgspec.Struct, frozen=True):
    """A part of the schedule: seconds, and queries per second at its begin and its end."""

    seconds: float
    first: float
    last: float


class PlanReport(msgspec.Struct, frozen=True):
    """The plan of the run; `what` describes the questions in words, a query is lost after `timeout_ms`."""

    transport: str
    stages: list[StageReport]
    arrival: str
    burst: int
    seed: int
    sockets: int
    timeout_ms: float
    questions: int
    what: str
    edns: int
    churn: float
    part: str = ""  # of -part; "" for the whole
    churn_kinds: dict[str, int] = {}
    probes: float = 0.0  # maximum probes per second that follow changes
    streams: StreamPlan | None = None  # over connections, all queries or truncated ones


class Machine(msgspec.Struct, frozen=True):
    """The machine of the generator."""

    hsdns: str
    python: str
    system: str
    processors: int
    sockets_by: str  # rust or python: the code that sends and receives


class Counts(msgspec.Struct, frozen=True):
    """Counts of queries; `due` includes those that this machine could not send."""

    due: int
    sent: int
    not_sent: int
    answered: int
    lost: int
    truncated: int
    rcodes: dict[str, int]


class KindReport(msgspec.Struct, frozen=True):
    """Queries of one kind of name and one type; `slots` are the histogram of the latency (docs/load.md)."""

    group: str
    type: str
    counts: Counts
    latency: list[Percentile]
    slots: Slots


class StaleReport(msgspec.Struct, frozen=True):
    """A name that had stale answers; the time of the first is in seconds after the begin."""

    name: str
    type: str
    count: int
    worst_age_ms: float
    first_s: float


class VerdictReport(msgspec.Struct, frozen=True):
    """Verdicts on the answers, with the ages of stale ones and of those behind by less than the slack.

    `stale_names` has all of them, the stalest first.  `old_since_s` is the time of the first change that a stale answer
    lacked, `old_until_s` the time of the last query with a stale answer, `old_for_s` later; in seconds after the begin.
    """

    counts: dict[str, int]
    undecided: dict[str, int]
    slack_ms: float
    changes: int
    stale_age: list[Percentile]
    behind: list[Percentile]
    stale_names: list[StaleReport]
    stale_slots: Slots
    behind_slots: Slots
    old_since_s: float | None = None
    old_until_s: float | None = None
    old_for_s: float | None = None


class SecondReport(msgspec.Struct, frozen=True):
    """One second of the schedule; `slots` and `late_slots` are the histograms of latency and lateness."""

    second: int
    counts: Counts
    latency: list[Percentile]
    lateness: list[Percentile]
    verdicts: dict[str, int]
    worst_age_ms: float
    changes: int
    slots: Slots
    late_slots: Slots


class LimitReport(msgspec.Struct, frozen=True):
    """A limit of -fail-if; `met` is None if it could not be evaluated.

    Its value is a percentile, with `us` None if there is none, or a `count` out of a `whole`, or the `rate` of the
    knee; if that was not found, the rate at which limits held or broke that decides the limit.
    """

    limit: str
    met: bool | None
    us: int | None = None
    count: int | None = None
    whole: int | None = None
    rate: float | None = None


class ServerReport(msgspec.Struct, frozen=True):
    """What was measured of one server.

    `ended` is "" if its run is complete, else what ended it; `refused` is why some latencies are refused.
    """

    name: str
    target: str
    ended: str
    seconds: float
    counts: Counts
    latency: list[Percentile]
    lateness: list[Percentile]
    refused: str
    kinds: list[KindReport]
    verdicts: VerdictReport | None
    propagation: PropagationReport | None
    limits: list[LimitReport]
    per_second: list[SecondReport]
    connections: ConnectionsReport | None = None
    lookups: LookupsReport | None = None  # lookups by pods


class KneeStep(msgspec.Struct, frozen=True):
    """A run of a search: queries per second, seconds, and the outcome: held, broken, or generator (was the limit)."""

    rate: float
    seconds: float
    outcome: str
    sent: int
    lost: int
    latency: list[Percentile]
    lateness: list[Percentile]


class KneeReport(msgspec.Struct, frozen=True):
    """A rate at which the limits held and one at which they broke, if any; adjacent if the knee is `found`."""

    found: bool
    holds: float | None
    breaks: float | None
    said: str
    limits: list[str]
    steps: list[KneeStep]


class Report(msgspec.Struct, frozen=True):
    """A run: the same queries at the same times, under the same changes, to one server or several.

    `generators`: the number of merged reports.  `knee`: a search; the run is then one of its steps.
    """

    format: str
    started: str
    plan: PlanReport
    machine: Machine
    servers: list[ServerReport]
    generators: int = 1
    knee: KneeReport | None = None


class Run(msgspec.Struct, frozen=True):
    """The inputs of make_report() other than measurements; `slack` None: answers were not judged."""

    started: str
    plan: PlanReport
    machine: Machine
    slack: float | None
    limits: list[Limit]
    knee: KneeReport | None = None


class OfServer(NamedTuple):
    """The measurements of a server; `ended` and `seconds` as in ServerReport."""

    name: str
    target: str
    ended: str
    seconds: float
    results: Results
    propagation: PropagationReport | None = None


def make_report(run: Run, servers: Sequence[OfServer]) -> Report:
    """The report of a run."""
    found = [_server(run, each) for each in servers]
    return Report(FORMAT, run.started, run.plan, run.machine, found, knee=run.knee)


def make_step(
    rate: float, seconds: float, outcome: str, whole: Second, measured: Measured
) -> KneeStep:
    """The report of a step of a search."""
    latency, lateness = _percentiles(measured.latency), _percentiles(measured.lateness)
    return KneeStep(rate, seconds, outcome, whole.sent, whole.lost, latency, lateness)


def read_report(octets: bytes, name: str) -> Report:
    """Read a report in JSON; `name` is the name of its file; raise LoadError."""
    try:
        head = msgspec.json.decode(octets, type=_Head)
        if head.format != FORMAT:
            raise LoadError(
                f'{name}: the report is of the format "{head.format}", and only "{FORMAT}" can be read; '
                "write it again with this version"
            )
        return msgspec.json.decode(octets, type=Report)
    except msgspec.MsgspecError as error:
        raise LoadError(
            f"{name}: that is no report of hsdns load ({error}); -json FILE writes one"
        ) from None


class _Head(msgspec.Struct):
    format: str


def _server(run: Run, server: OfServer) -> ServerReport:
    results = server.results
    whole = results.whole()
    measured = measured_of(whole)
    latency, lateness = measured.latency, measured.lateness
    refused = not all_sent(whole.sent, whole.not_sent)
    said = refusal(latency, lateness, whole.sent, whole.not_sent)
    lookups = lookups_report(results.lookups, whole.lateness, refused=refused)
    known: dict[tuple[int, int], tuple[int, int]] = {}
    measured = with_lookups(measured, lookups)._replace(knee=_knee_rates(run.knee))
    return ServerReport(
        server.name,
        server.target,
        server.ended,
        server.seconds,
        _counts(whole),
        _percentiles(latency),
        _percentiles(lateness),
        said,
        [
            KindReport(
                group,
                type_to_text(qtype),
                _counts(part),
                _percentiles(
                    latency_figures(part.latency, part.lost, whole.lateness, refused=refused)
                ),
                part.latency.pairs(),
            )
            for (group, qtype), part in sorted(results.kinds.items())
            if part.sent or part.not_sent
        ],
        None if run.slack is None else _verdicts(results, whole, run.slack),
        server.propagation,
        [_limit(limit, measured, server.ended) for limit in run.limits],
        [
            _second(number, second, known, refused=refused)
            for number, second in sorted(results.seconds.items())
            if second.sent or second.not_sent or second.changes
        ],
        connections_report(results.connections),
        lookups=lookups,
    )


def _knee_rates(knee: KneeReport | None) -> tuple[float, float]:
    """The lowest and the highest possible rate of the knee."""
    holds = 0.0 if knee is None or knee.holds is None else knee.holds
    if knee is not None and knee.found:
        return holds, holds
    return holds, float("inf") if knee is None or knee.breaks is None else knee.breaks


def _limit(limit: Limit, measured: Measured, ended: str) -> LimitReport:
    met = True if has_aborted(limit, ended) else is_met(limit, measured)
    if limit.metric == KNEE:
        return LimitReport(limit.text, met, rate=knee_rate(limit, measured))
    if limit.unit == "us":
        return LimitReport(limit.text, met, figure_of(limit, measured).us)
    count, whole = measured.counts[limit.metric]
    return LimitReport(limit.text, met, count=count, whole=whole)


def exit_status(report: Report) -> int:
    """0: no limit is met; 1: one is met; 2: one, or the knee, is unknown, or a run is incomplete."""
    met = [limit.met for server in report.servers for limit in server.limits]
    if report.knee is not None and not report.knee.found:
        met.append(None)
    is_whole = not any(server.ended for server in report.servers)
    return 1 if True in met else 2 if None in met or not is_whole else 0


def _percentiles(figures: Sequence[Figure]) -> list[Percentile]:
    return [Percentile(name_of(each.percent), each.us, each.why) for each in figures]


def _counts(part: Part) -> Counts:
    rcodes = {rcode_to_text(rcode): count for rcode, count in sorted(part.rcodes.items())}
    due = part.sent + part.not_sent
    return Counts(due, part.sent, part.not_sent, part.answered, part.lost, part.truncated, rcodes)


def _second(
    number: int, second: Second, known: dict[tuple[int, int], tuple[int, int]], *, refused: bool
) -> SecondReport:
    latency = latency_figures(second.latency, second.lost, second.lateness, refused=refused)
    return SecondReport(
        number,
        _counts(second),
        _percentiles(latency),
        _percentiles(lateness_figures(second.lateness)),
        {word: second.verdicts[word] for word in VERDICTS if second.verdicts[word]},
        round(second.worst_age * 1000, 3),
        second.changes,
        second.latency.pairs(known),
        second.lateness.pairs(known),
    )


def _verdicts(results: Results, whole: Second, slack: float) -> VerdictReport:
    return VerdictReport(
        {word: whole.verdicts[word] for word in VERDICTS},
        dict(sorted(results.reasons.items())),
        slack * 1000,
        whole.changes,
        _percentiles(lateness_figures(results.ages)),
        _percentiles(lateness_figures(results.behind)),
        _stale_names(results),
        results.ages.pairs(),
        results.behind.pairs(),
        *_old(results.old),
    )


def _old(found: OldSpan) -> tuple[float | None, float | None, float | None]:
    if found.since > found.until:
        return None, None, None
    since, until = round(found.since, 6), round(found.until, 6)
    return since, until, round(until - since, 6)


def _stale_names(results: Results) -> list[StaleReport]:
    """The names that had stale answers, the stalest first; questions with the same name and type count as one."""
    names: dict[tuple[str, int], StaleName] = {}
    for number, found in results.stale.items():
        question = results.questions[number]
        name = names.setdefault((question.name.to_text(), question.qtype), StaleName())
        name.merge(found)
    reports = [
        StaleReport(
            text,
            type_to_text(qtype),
            found.count,
            round(found.worst_age * 1000, 3),
            round(found.first, 3),
        )
        for (text, qtype), found in names.items()
    ]
    return sorted(reports, key=lambda each: (-each.worst_age_ms, each.name, each.type))
