"""The report of a run, as values: written as JSON, and the input of text and page.

Path: results.py -> here (finish) -> output/text.py, output/page.py, or JSON as docs/load.schema.json describes it.
Rule 1: times in microseconds are whole numbers; None if a figure is withheld, and `why` is the reason.
Rule 2: Report has what all servers of a run share, a ServerReport what was measured of one server.

Why figures are withheld, in a sentence: how many queries were late, in which seconds, why, and what to do.
Rule: in the seconds until the greatest lateness, the sender was stopped, waited for a CPU, or had it taken by the
      hypervisor, for half of that lateness, or it ran all the time.  Otherwise it was stopped, unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from hsdns.load.errors import LoadError
from hsdns.load.histogram import LATE, Histogram, Percentile, all_sent, us_to_text
from hsdns.load.limits import KNEE, LOSS, Limit, Measured, figure_of, has_aborted, is_met, knee_rate
from hsdns.load.plan import StreamPlan
from hsdns.load.pods import SEARCH
from hsdns.load.questions import ABSENT
from hsdns.load.results import (
    KindReport,
    LimitReport,
    Second,
    ServerReport,
    VerdictReport,
    mark_unknown,
    measured_of,
    together,
    with_lookups,
)
from hsdns.load.schedule import Stage
from hsdns.wire.iana import type_from_text

FORMAT = "hsdns load 3"


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
    """A run of a search: queries per second, seconds, and the outcome.

    It is held, broken, generator (which was the limit), or busy: broken, but other processes kept the machine busy.
    """

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
            f"{name}: that is not a report of hsdns load ({error}); --json FILE writes one"
        ) from None


class _Head(msgspec.Struct):
    format: str


def _finish(
    server: ServerReport, slack: float | None, limits: Sequence[Limit], knee: tuple[float, float]
) -> None:
    mark_unknown(server.per_second)
    whole = together(server.per_second)
    counts, server.machine = whole.counts, whole.machine
    withheld = not all_sent(counts.sent, counts.not_sent)
    server.per_second.sort(key=lambda each: each.second)
    for second in (whole, *server.per_second):
        second.finish(withheld=withheld)
    server.counts = counts
    server.latency, server.lateness = whole.latency, whole.lateness
    server.withheld = why_withheld(whole, server.per_second)
    server.per_second = [
        each for each in server.per_second if each.counts.due or each.changes or each.unmatched
    ]
    server.kinds = [each for each in server.kinds if each.counts.due]
    server.kinds.sort(key=lambda each: (each.group, type_from_text(each.type)))
    for kind in server.kinds:
        kind.finish(whole, withheld=withheld)
    server.notes = [*_foreign_names(server.kinds), *_unstamped(whole)]
    lookups = server.lookups and server.lookups.finish(whole.late_slots, withheld=withheld)
    verdicts = server.verdicts or VerdictReport()
    server.verdicts = None if slack is None else verdicts.finish(whole, slack)
    server.propagation = server.propagation and server.propagation.finish()
    server.connections = server.connections and server.connections.finish()
    measured = with_lookups(measured_of(whole), lookups)._replace(knee=knee)
    server.service = list(measured.service)
    server.lookups = lookups
    server.limits = [_limit(limit, measured, server.ended) for limit in limits]


def why_withheld(whole: Second, seconds: Sequence[Second]) -> str:
    """Why figures are withheld, and whether losses may be the sender's; "" if all are stated."""
    counts = whole.counts
    if not all_sent(counts.sent, counts.not_sent):
        return (
            f"the generator was the limit: this machine could not send {counts.not_sent} of {counts.due} queries that "
            f"were due, so no latency of this run stands; {_SLOWER}"
        )
    every = [each.name for each in whole.latency]
    names = [each.name for each in whole.latency if each.why == LATE]
    if not names and not counts.unknown:
        return ""
    found, remedy = [], _SLOWER
    if late := [each for each in seconds if each.counts.late]:
        worst = max(each.late_slots.highest or 0 for each in late)
        cause, remedy = _cause(seconds, late, worst)
        told = (
            f"it sent {counts.late} of {counts.sent} queries late, by {us_to_text(worst)} at most"
        )
        found.append(f"{told}, in {_numbers(late)}, {cause}")
    if full := [each for each in seconds if each.dropped]:
        told = f"its sockets had no room for {whole.dropped} replies"
        found.append(f"{told} in {_numbers(full)}")
        remedy = "raise net.core.rmem_max to 4194304, or give a lower --rate"
    if not found:
        own = next(each.us for each in whole.lateness if each.name == names[0]) or 0
        found.append(f"it was late by {us_to_text(own)} at {names[0]}")
    if counts.unknown:
        found.append(f"{counts.unknown} queries that were lost then may be its own losses")
    if names:
        at = (
            f"from {names[0]} on"
            if len(names) > 1 and names == every[-len(names) :]
            else f"at {', '.join(names)}"
        )
        found.append(f"the latency {at} is withheld, < is its upper bound")
    return f"the generator was the limit: {'; '.join(found)}; {remedy}"


_SLOWER: Final = "give a lower --rate, or run it on a separate machine"
_STOP: Final = 20_000  # microseconds; shorter ones may have other causes
_ALONE: Final = "run it on a separate machine"
_MOST: Final = 8  # seconds in a sentence


def _cause(seconds: Sequence[Second], late: Sequence[Second], worst: int) -> tuple[str, str]:
    """Why the sender was `late`, by so many microseconds at most, and what to do."""
    latest = max(late, key=lambda each: each.late_slots.highest or 0).second
    numbers = {each.second for each in late}
    first = next(at for at in range(latest, -2, -1) if at - 1 not in numbers)
    of_it = range(first - 1, latest + 1 + worst // 10**6)
    bad = together(each for each in seconds if each.second in of_it).machine
    good = together(each for each in seconds if each.second not in of_it).machine

    def meanwhile(name: str) -> float:
        """What went on in that time, besides what goes on in other seconds."""
        found, usual = getattr(bad, name) or 0, getattr(good, name) or 0
        usually = usual / good.elapsed if good.elapsed else 0.0
        return found - usually * max(0, (bad.elapsed or 0) - worst)

    stopped = "because its process was stopped", "let it run without a stop"
    if (bad.stopped or 0) * 2 >= worst:
        return stopped
    took = meanwhile("waited"), meanwhile("stolen")
    if max(took) * 2 >= worst:
        whose = "other processes" if took[0] >= took[1] else "the hypervisor"
        return f"because {whose} had its CPU for {us_to_text(min(max(took), worst))}", _ALONE
    if (bad.sender or 0) > (bad.elapsed or 0) * 0.9:
        return "because it had no time left for more", _SLOWER
    if bad.waited is None or worst < _STOP:
        return "for an unknown reason", _ALONE
    return stopped


def _numbers(found: Sequence[Second]) -> str:
    """The numbers of seconds in words."""
    numbers = [str(each.second) for each in found]
    more = f" and {len(numbers) - _MOST} more" if len(numbers) > _MOST else ""
    return f"second{'s' if numbers[1:] else ''} {', '.join(numbers[:_MOST])}{more}"


_FOREIGN: Final = {
    "NXDOMAIN": "the server does not have these names",
    "REFUSED": "the server has no zone for these names",
}


def _foreign_names(kinds: Sequence[KindReport]) -> Iterator[str]:
    """Sentences about names that the server does not have, though they were expected to be there."""
    asked = [each for each in kinds if each.group not in (ABSENT, SEARCH)]
    for rcode, told in _FOREIGN.items():
        found = [
            each for each in asked if each.counts.rcodes.get(rcode, 0) * 2 > each.counts.answered
        ]
        if found:
            names = ", ".join(f"{each.group} {each.type}" for each in found)
            count = sum(each.counts.rcodes[rcode] for each in found)
            whole = sum(each.counts.answered for each in found)
            yield f"{count} of {whole} answers to {names} are {rcode}: {told}"


def _unstamped(whole: Second) -> Iterator[str]:
    """A sentence about replies whose arrival the kernel does not tell."""
    if whole.unstamped:
        late = whole.late_slots.percentile(99) or 0
        yield (
            f"{whole.unstamped} of {whole.counts.answered} replies have no time stamp of the kernel, so they are timed "
            f"when they are read: too long by as much as the sender was late, {us_to_text(late)} at p99"
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
        figure = figure_of(limit, measured)
        return LimitReport(limit.text, met, figure.us, at_most=figure.at_most)
    count, whole = measured.counts[limit.metric]
    if limit.metric == LOSS and measured.unknown:
        known = count - measured.unknown
        return LimitReport(limit.text, met, count=known, whole=whole, at_most=count)
    return LimitReport(limit.text, met, count=count, whole=whole)


def exit_status(report: Report) -> int:
    """0: no limit is met; 1: one is met; 2: one, or the knee, is unknown, or a run is incomplete."""
    met = [limit.met for server in report.servers for limit in server.limits]
    if report.knee is not None and not report.knee.found:
        met.append(None)
    is_whole = not any(server.ended for server in report.servers)
    return 1 if True in met else 2 if None in met or not is_whole else 0
