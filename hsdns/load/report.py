"""The report of a run, as values: written as JSON, and the input of text and page.

Path: results.py -> here (finish) -> output/text.py, output/page.py, or JSON as docs/load.schema.json describes it.
Rule 1: times in microseconds are whole numbers; None if a figure is refused, and `why` is the reason.
Rule 2: Report has what all servers of a run share, a ServerReport what was measured of one server.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.histogram import Histogram, Percentile, all_sent, latency_figures, refusal
from hsdns.load.limits import KNEE, Limit, Measured, figure_of, has_aborted, is_met, knee_rate
from hsdns.load.plan import StreamPlan
from hsdns.load.results import (
    LimitReport,
    ServerReport,
    VerdictReport,
    limit_counts,
    together,
    with_lookups,
)
from hsdns.load.schedule import Stage
from hsdns.wire.iana import type_from_text

FORMAT = "hsdns load 2"


class PlanReport(msgspec.Struct, frozen=True):
    """The plan of the run; `what` describes the questions in words, a query is lost after `timeout_ms`."""

    transport: str
    stages: list[Stage]
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


class ClockReport(msgspec.Struct, frozen=True):
    """The clock of a generator: microseconds ahead of the coordinator's, by which all began, and their uncertainty."""

    part: str
    ahead_us: int
    within_us: int


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
    sentence: str = msgspec.field(name="said")
    limits: list[str]
    steps: list[KneeStep]


class Report(msgspec.Struct, frozen=True):
    """A run: the same queries at the same times, under the same changes, to one server or several.

    `generators`: the number of merged reports.  `knee`: a search; the run is then one of its steps.  `digest` is that
    of the plan, the same for all its portions; `clocks` those of the generators, if they began together.
    """

    format: str
    started: str
    plan: PlanReport
    machine: Machine
    servers: list[ServerReport]
    generators: int = 1
    knee: KneeReport | None = None
    digest: str = ""
    clocks: list[ClockReport] = []

    def finish(self, slack: float | None, limits: Sequence[Limit]) -> Report:
        """Make the figures of servers' counters; `slack` None: answers were not judged."""
        for server in self.servers:
            _finish(server, slack, limits, _knee_rates(self.knee))
        return self


def plain(value: object) -> Any:
    """A report, or a part of one, as objects that module json can write."""
    return msgspec.to_builtins(value, enc_hook=Histogram.pairs)


def encode(value: object) -> bytes:
    """A report, or a part of one, as JSON."""
    return msgspec.json.encode(value, enc_hook=Histogram.pairs)


def read_report(octets: bytes, name: str) -> Report:
    """Read a report in JSON; `name` is the name of its file; raise LoadError."""
    try:
        head = msgspec.json.decode(octets, type=_Head)
        if head.format != FORMAT:
            raise LoadError(
                f'{name}: the report is of the format "{head.format}", and only "{FORMAT}" can be read; '
                "write it again with this version"
            )
        return msgspec.json.decode(octets, type=Report, dec_hook=lambda kind, found: kind(found))
    except msgspec.MsgspecError as error:
        raise LoadError(
            f"{name}: that is no report of hsdns load ({error}); -json FILE writes one"
        ) from None


class _Head(msgspec.Struct):
    format: str


def _finish(
    server: ServerReport, slack: float | None, limits: Sequence[Limit], knee: tuple[float, float]
) -> None:
    whole = together(server.per_second)
    counts = server.counts = whole.counts
    refused = not all_sent(counts.sent, counts.not_sent)
    server.per_second = [
        each for each in server.per_second if each.counts.due or each.changes or each.unmatched
    ]
    server.per_second.sort(key=lambda each: each.second)
    for second in (whole, *server.per_second):
        second.finish(refused=refused)
    server.latency, server.lateness = whole.latency, whole.lateness
    server.refused = refusal(whole.latency, whole.lateness, counts.sent, counts.not_sent)
    server.kinds = [each for each in server.kinds if each.counts.due]
    server.kinds.sort(key=lambda each: (each.group, type_from_text(each.type)))
    for kind in server.kinds:
        kind.counts.finish()
        kind.latency = latency_figures(
            kind.slots, kind.counts.lost, whole.late_slots, refused=refused
        )
    lookups = server.lookups and server.lookups.finish(whole.late_slots, refused=refused)
    verdicts = server.verdicts or VerdictReport()
    server.verdicts = None if slack is None else verdicts.finish(whole, slack)
    server.propagation = server.propagation and server.propagation.finish()
    server.connections = server.connections and server.connections.finish()
    measured = Measured(limit_counts(whole), whole.latency, whole.lateness)
    measured = with_lookups(measured, lookups)._replace(knee=knee)
    server.lookups = lookups
    server.limits = [_limit(limit, measured, server.ended) for limit in limits]


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
