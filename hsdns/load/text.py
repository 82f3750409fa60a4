"""The report of a run as text, for a terminal or a log.

Path: report.py -> here -> cli/load.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.load.connection_report import ConnectionsReport, reasons
from hsdns.load.report import Counts, Percentile, Report, StageReport, StaleReport, VerdictReport

_LABEL: Final = 10
MOST_NAMES: Final = 5


def lines(report: Report) -> list[str]:
    """The report, line by line."""
    plan, counts = report.plan, report.counts
    found = [
        f"{plan.target} over {plan.transport}, {plan.what}",
        _row(
            "plan", f"{rates(plan.stages)}, {arrival(plan.arrival, plan.burst)}, seed {plan.seed}"
        ),
    ]
    if report.ended:
        found.append(
            _row(
                "NOT WHOLE",
                f"{report.ended} after {report.seconds:.1f} s; what was measured until then:",
            )
        )
    found += [
        _row("queries", f"{counts.due} due, {_queries(counts)}"),
        _row("answers", answers(counts)),
        _row("latency", percentiles(report.latency)),
        _row("generator", f"late by {percentiles(report.lateness)}"),
    ]  # fmt: skip
    if counts.not_sent:
        found.append(_row("", f"{counts.not_sent} queries that this machine could not send"))
    if report.refused:
        found.append(_row("REFUSED", report.refused))
    if len(report.kinds) > 1:
        width = max(len(f"{kind.group} {kind.type}") for kind in report.kinds)
        for number, kind in enumerate(report.kinds):
            label = f"{kind.group} {kind.type}".ljust(width)
            shown = percentiles(kind.latency, ("p50", "p99", "max"))
            text = f"{label}  {kind.counts.answered} answered, {kind.counts.lost} lost, {shown}"
            found.append(_row("" if number else "kinds", text))
    if report.verdicts is not None:
        found += _verdicts(report.verdicts)
    if report.connections is not None:
        found += _connections(report.connections)
    for limit in report.limits:
        word = {True: "FAILED", False: "held", None: "UNKNOWN"}[limit.met]
        found.append(_row("limit", f"{limit.limit}: {word}"))
    return found


def answers(counts: Counts) -> str:
    """Rcodes with their numbers."""
    words = [f"{rcode} {count}" for rcode, count in counts.rcodes.items()]
    if counts.truncated:
        words.append(f"truncated {counts.truncated}")
    return ", ".join(words) or "none"


def percentiles(figures: Sequence[Percentile], only: Sequence[str] = ()) -> str:
    """Percentiles in a line; those without a figure say why."""
    words = [f"{each.name} {duration(each)}" for each in figures if not only or each.name in only]
    return "  ".join(words)


def duration(figure: Percentile) -> str:
    """A figure with its unit, or why there is none."""
    if figure.us is None:
        return {"lost": "lost", "generator": "-", "none": "-"}[figure.why]
    return us_to_text(figure.us)


def us_to_text(us: float) -> str:
    """Microseconds with three digits, in the unit that suits."""
    for unit, size in (("s", 1_000_000.0), ("ms", 1000.0)):
        if us >= size:
            value = us / size
            return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{us:.0f} us"


def share(count: int, whole: int) -> str:
    """A number and its share of a whole."""
    return f"{count} ({count / whole:.3%})" if count and whole else str(count)


def rates(stages: Sequence[StageReport]) -> str:
    """The rates of a schedule."""
    words = []
    for stage in stages:
        rate = (
            f"{stage.first:.10g}"
            if stage.first == stage.last
            else f"{stage.first:.10g}..{stage.last:.10g}"
        )
        words.append(f"{rate}/s for {stage.seconds:g} s")
    return ", then ".join(words)


def arrival(word: str, burst: int) -> str:
    """How queries arrive."""
    return f"bursts of {burst}" if word == "burst" else word


def _verdicts(found: VerdictReport) -> list[str]:
    judged = sum(found.counts.values())
    words = ", ".join(f"{word} {count}" for word, count in found.counts.items())
    rows = [_row("verdicts", f"{words}; of {judged} answers, under {found.changes} changes")]
    if found.undecided:
        reasons = ", ".join(f"{reason} {count}" for reason, count in found.undecided.items())
        rows.append(_row("", f"undecided: {reasons}; slack {found.slack_ms:g} ms"))
    if found.undecided.get("behind"):
        rows.append(_row("", f"behind by {percentiles(found.behind, ('p50', 'p99', 'max'))}"))
    if found.counts.get("stale"):
        rows.append(_row("STALE", f"by {percentiles(found.stale_age)}"))
        rows += [_row("", _stale(name)) for name in found.stale_names[:MOST_NAMES]]
    return rows


def _connections(found: ConnectionsReport) -> list[str]:
    words = [f"{found.opened} opened, {found.most_open} at once at most"]
    if found.fell:
        words.append(f"for {found.fell} truncated answers")
    words += [
        f"{text} {count}"
        for text, count in (
            ("queries asked again", found.asked_again),
            ("late replies", found.late),
        )
        if count
    ]
    rows = [_row("connected", ", ".join(words))]
    setup = [
        Percentile(each.name, each.us, "" if each.us is not None else "none")
        for each in found.setup
    ]
    if found.opened:
        rows.append(_row("", f"set up in {percentiles(setup)}"))
    for text, counts in (
        ("ended", found.ended),
        ("NOT opened", found.not_opened),
        ("queries without an answer", found.without_answer),
    ):
        if counts:
            rows.append(_row("", f"{text}: {reasons(counts)}"))
    return rows


def _queries(counts: Counts) -> str:
    lost = share(counts.lost, counts.sent)
    return f"{counts.sent} sent, {counts.answered} answered, {lost} lost"


def _stale(name: StaleReport) -> str:
    worst = us_to_text(name.worst_age_ms * 1000)
    return (
        f"{name.name} {name.type}: {name.count}, by {worst} at most, first at {name.first_s:.1f} s"
    )


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}} {text}"
