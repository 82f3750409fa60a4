"""Counts, times and rates of a report as text.

Path: text.py, ci.py, page.py -> here.

Compares servers: those of one run, or of several saved runs:
Rule 1: a figure that no server has is omitted; one that only some have is "-" for the others.
Rule 2: other differences between the runs are stated, because they make the figures less comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hsdns.load.histogram import Percentile, us_to_text
from hsdns.load.report import KneeStep, PlanReport, Report
from hsdns.load.results import Counts, LimitReport, ServerReport, together
from hsdns.load.schedule import Stage
from hsdns.load.verify.judge import VERDICTS


def answers(counts: Counts) -> str:
    """Rcodes with their counts."""
    words = [f"{rcode} {count}" for rcode, count in counts.rcodes.items()]
    if counts.truncated:
        words.append(f"truncated {counts.truncated}")
    return ", ".join(words) or "none"


def unmatched(server: ServerReport) -> str:
    """Replies to no query that waited, with the reasons; "" without any."""
    found = together(server.per_second).unmatched
    reasons = ", ".join(f"{why} {count}" for why, count in sorted(found.items()))
    return f"{sum(found.values())} replies to no query that waited: {reasons}" if found else ""


def percentiles(figures: Sequence[Percentile], only: Sequence[str] = ()) -> str:
    """Percentiles on one line; those without a figure with the reason."""
    words = [f"{each.name} {duration(each)}" for each in figures if not only or each.name in only]
    return "  ".join(words)


def duration(figure: Percentile) -> str:
    """A figure with its unit, or an upper bound of it, or why there is none."""
    if figure.at_most is not None:
        return f"<{us_to_text(figure.at_most)}"
    if figure.us is None:
        return figure.why if figure.why in ("lost", "never") else "-"
    return us_to_text(figure.us)


def age(ms: float) -> str:
    """The age of an answer, in milliseconds, so that it can be found in the log of a server."""
    return f"{ms / 1000:.3f} s" if ms >= 1000 else us_to_text(ms * 1000)


def since_begin(seconds: float) -> str:
    """A time in a run, in milliseconds."""
    return f"{seconds:.3f} s" if seconds >= 0 else f"{-seconds:.3f} s before the begin"


def share(count: int, whole: int) -> str:
    """A number and its share of a whole."""
    return f"{count} ({count / whole:.3%})" if count and whole else str(count)


def limited(limit: LimitReport) -> str:
    """The measured value of a limit."""
    if limit.count is not None and limit.at_most is not None:
        return f"{limit.count} to {share(limit.at_most, limit.whole or 0)}"
    if limit.count is not None:
        return share(limit.count, limit.whole or 0)
    if limit.us is not None or limit.at_most is not None:
        return (
            us_to_text(limit.us) if limit.us is not None else f"<{us_to_text(limit.at_most or 0)}"
        )
    if limit.rate is not None:
        return f"{limit.rate:.10g}/s"
    return "lost" if limit.met is not None else "not measured"


_OUTCOMES: Final = {
    "generator": "the generator was the limit",
    "busy": "broken, but other processes kept the machine busy",
}


def knee_step(step: KneeStep) -> str:
    """The outcome of a step of a search for the knee."""
    word = _OUTCOMES.get(step.outcome, step.outcome)
    figures = percentiles(step.latency, ("p50", "p99", "p99.9"))
    late = percentiles(step.lateness, ("p99",))
    return f"{word}, {figures}, lost {share(step.lost, step.sent)}, generator late by {late}"


def rates(stages: Sequence[Stage]) -> str:
    """The rates of a schedule."""
    words = []
    for stage in stages:
        ramp = "" if stage.first == stage.last else f"..{stage.last:.10g}"
        own = [bursts(stage.arrival, stage.burst)] if stage.arrival else []
        own += [f"{kind} {share}" for kind, share in stage.mix.items()]
        own += [] if stage.churn is None else [f"{stage.churn:g} changes/s"]
        more = f" ({', '.join(own)})" if own else ""
        words.append(f"{stage.first:.10g}{ramp}/s for {stage.seconds:g} s{more}")
    return ", then ".join(words)


def arrival(plan: PlanReport) -> str:
    """The arrival of queries."""
    return bursts(plan.arrival, plan.burst)


def bursts(way: str, burst: int) -> str:
    """A way to arrive."""
    return f"bursts of {burst}" if way == "burst" else way


_TIMES: Final = {
    "sender": "CPU time: sender",
    "counting": "counting",
    "server": "server",
    "busy": "all processes",
    "waited": "without a CPU: sender",
    "pressure": "some task (/proc/pressure/cpu)",
    "stolen": "stolen by the hypervisor",
}


def machine_words(server: ServerReport) -> list[str]:
    """What the machine did during a run, and what it does not tell, in lines; none if it tells nothing."""
    times = {told: getattr(server.machine, name) for name, told in _TIMES.items()}
    if set(times.values()) == {None}:
        return []
    full = {
        "sender": sum(each.dropped for each in server.per_second),
        "server": server.machine.overflowed,
    }
    return [
        ", ".join(f"{told} {'not known' if us is None else us_to_text(us)}" for told, us in times.items()),
        *(f"no room in sockets of the {whose}: {count} dropped" for whose, count in full.items() if count),
    ]  # fmt: skip


def plan_words(plan: PlanReport) -> str:
    """The schedule of a plan."""
    portion = f", part {plan.part} of it" if plan.part else ""
    return f"{rates(plan.stages)}, {arrival(plan)}, seed {plan.seed}{portion}"


def together_words(report: Report) -> str:
    """How many generators there were, and how far apart they may have begun; "" for one."""
    if report.generators < 2:
        return ""
    within = sum(sorted(each.within_us for each in report.clocks)[-2:])
    apart = f", begun within {us_to_text(within)} of each other" if report.clocks else ""
    ahead = max((abs(each.ahead_us) for each in report.clocks), default=0)
    clocks = f", clocks up to {us_to_text(ahead)} apart from the first one's" if ahead else ""
    return f", by {report.generators} generators{apart}{clocks}"


_LATENCIES: Final = ("p50", "p99", "p99.9", "max")
SHORT: Final = ("p50", "p99", "max")
NOTHING: Final = "-"


class Shown(NamedTuple):
    """A server's report with a unique name, and the run that it belongs to."""

    name: str
    report: Report
    server: ServerReport


# The label of a figure, and the figure of each server.
Row = tuple[str, list[str]]


def shown(report: Report) -> list[Shown]:
    """The servers of a run."""
    return [Shown(each.name, report, each) for each in report.servers]


def shown_together(reports: Sequence[tuple[str, Report]]) -> list[Shown]:
    """The servers of several runs, given with names; a server has its own name if that is unique."""
    names = [each.name for _, report in reports for each in report.servers]
    found: list[Shown] = []
    for name, report in reports:
        for each in report.servers:
            own = each.name if names.count(each.name) == 1 else f"{name}: {each.name}"
            found.append(Shown(own, report, each))
    return found


def comparison(servers: Sequence[Shown]) -> list[Row]:
    """The figures of servers, in rows."""
    return [row for row in _rows([each.server for each in servers]) if set(row[1]) != {NOTHING}]


def differences(servers: Sequence[Shown]) -> list[str]:
    """Sentences about the differences between the runs of servers."""
    plans = [each.report.plan for each in servers]
    found = []
    for label, values in (
        ("rate", [rates(each.stages) for each in plans]),
        ("arrival", [arrival(each) for each in plans]),
        ("seed", [str(each.seed) for each in plans]),
        ("transport", [each.transport for each in plans]),
        ("questions", [each.what for each in plans]),
        ("changes a second", [f"{each.churn:g}" for each in plans]),
        ("machine", [each.report.machine.system for each in servers]),
        ("hsdns", [each.report.machine.hsdns for each in servers]),
    ):
        if len(set(values)) > 1:
            told = "; ".join(
                f"{each.name}: {value}" for each, value in zip(servers, values, strict=True)
            )
            found.append(f"the runs differ in {label}: {told}")
    return found


def _rows(servers: Sequence[ServerReport]) -> Iterator[Row]:
    if any(each.ended for each in servers):
        yield "not whole", [each.ended or NOTHING for each in servers]
    yield "answered", [str(each.counts.answered) for each in servers]
    yield "lost", [share(each.counts.lost, each.counts.sent) for each in servers]
    if any(each.counts.late for each in servers):
        yield "of them of unknown cause", [str(each.counts.unknown) for each in servers]
        yield "sent late", [share(each.counts.late, each.counts.sent) for each in servers]
    for rcode in sorted({rcode for each in servers for rcode in each.counts.rcodes}):
        yield rcode, [str(each.counts.rcodes.get(rcode, 0)) for each in servers]
    for name in _LATENCIES:
        yield f"latency {name}", [_figure(each.latency, name) for each in servers]
    for name in SHORT[:2]:
        yield f"service {name}", [_figure(each.service, name) for each in servers]
    yield "generator late p99", [_figure(each.lateness, "p99") for each in servers]
    verdicts = [each.verdicts for each in servers]
    for word in VERDICTS:
        if any(each is not None and each.counts[word] for each in verdicts):
            yield word, [NOTHING if each is None else str(each.counts[word]) for each in verdicts]
    for label, name in (("stale by p50", "p50"), ("stale by at most", "max")):
        yield label, [_figure(_of(each, "stale_age"), name) for each in verdicts]
    episodes = [_of(each, "episodes") or () for each in verdicts]
    old = [sum(each.until_s - each.since_s for each in found) for found in episodes]
    yield "stale answers over", [age(each * 1000) if each else NOTHING for each in old]
    for label, part in (
        ("added: first new answer", "first_new"),
        ("removed: last old answer", "last_old"),
    ):
        for name in SHORT:
            parts = [_of(each.propagation, part) for each in servers]
            yield f"{label} after {name}", [_figure(each, name) for each in parts]
    yield "changes", [NOTHING if each is None else str(each.changes) for each in verdicts]


def _figure(figures: Sequence[Percentile] | None, name: str) -> str:
    return next((duration(each) for each in figures or () if each.name == name), NOTHING)


def _of(part: object, name: str) -> Any:
    """The attribute of a part of a report, None without that part."""
    return None if part is None else getattr(part, name)
