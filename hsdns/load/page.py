"""The report of a run as one HTML file, with everything in it.

Path: report.py -> here -> plots.py; cli/load.py writes it (-html).
Rule 1: no script, no font and nothing from elsewhere: the file can be sent and opened without a network.
Rule 2: what a plot shows is in a table behind it, for a screen reader, a printer, and who wants the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from hsdns.load import plots
from hsdns.load.columns import BAD, KNOWN, OTHER, Column, columns
from hsdns.load.judge import VERDICTS
from hsdns.load.report import Report, VerdictReport
from hsdns.load.text import answers, arrival, duration, rates, share, us_to_text

MOST_ROWS: Final = 1000  # of the table of seconds

Rows = Iterable[Sequence[object]]


def page(report: Report) -> str:
    """The page."""
    title = f"Load on {report.plan.target}"
    found = columns(report)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_subtitle(report))}</p>',
        _notes(report),
        _section("Figures", _figures(report)),
    ]
    if found:
        parts += [
            _plot("Answers", plots.answers(found), _legend(_seen_rcodes(found))),
            _plot("Latency over time", plots.heat(found), _legend(_LINES)),
            _plot(
                "Latency against the slowest share",
                plots.slowest(report),
                _legend(_slowest(report)),
            ),
        ]
        if report.verdicts is not None:
            parts.append(_verdict_plot(report.verdicts, found))
        parts.append(_section("Second by second", _seconds(report)))
    if len(report.kinds) > 1:
        parts.append(_section("Kinds of names", _kinds(report)))
    parts.append(_section("Plan and machine", _plan(report)))
    template = (files("hsdns.load") / "page.html").read_text()
    return template.replace("{title}", escape(title)).replace("{body}", "\n".join(parts))


def _subtitle(report: Report) -> str:
    counts = report.counts
    return (
        f"{report.started}, {report.seconds:g} s, {rates(report.plan.stages)} over {report.plan.transport}; "
        f"{counts.sent} queries, {counts.answered} answered"
    )


def _notes(report: Report) -> str:
    """What must be seen first."""
    notes = []
    if report.ended:
        notes.append(
            (
                "bad",
                "Not whole",
                f"{report.ended}; the figures are of the {report.seconds:g} s until then.",
            )
        )
    if report.refused:
        notes.append(("warn", "Left out", f"{report.refused}."))
    for limit in report.limits:
        style, word = {True: ("bad", "Failed"), False: ("good", "Held"), None: ("warn", "Unknown")}[
            limit.met
        ]
        notes.append((style, word, limit.limit))
    if report.verdicts is not None:
        counts = report.verdicts.counts
        wrong = {
            word: counts[word]
            for word in VERDICTS
            if counts[word] and word not in ("right", "undecided")
        }
        judged = sum(counts.values())
        if wrong:
            words = ", ".join(f"{count} {word}" for word, count in wrong.items())
            notes.append(("bad", "Not right", f"{words}, of {judged} answers that were judged."))
        elif judged:
            notes.append(
                (
                    "good",
                    "Right",
                    f"no answer of {judged} was stale or wrong, under {report.verdicts.changes} changes.",
                )
            )
    items = "".join(
        f'<li class="{style}"><strong>{escape(word)}</strong>{escape(text)}</li>'
        for style, word, text in notes
    )
    return f'<ul class="notes">{items}</ul>' if items else ""  # fmt: skip


def _figures(report: Report) -> str:
    names = [each.name for each in report.latency]
    rows: list[Sequence[object]] = [
        ("latency", *(duration(each) for each in report.latency)),
        ("generator late by", *(duration(each) for each in report.lateness)),
    ]
    if report.verdicts is not None and report.verdicts.counts["stale"]:
        rows.append(("stale by", *(duration(each) for each in report.verdicts.stale_age)))
    counts = report.counts
    facts = (
        f"{counts.due} queries were due, {counts.sent} sent, {counts.answered} answered, "
        f"{share(counts.lost, counts.sent)} lost: {answers(counts)}."
    )
    return f"<p>{escape(facts)}</p>{_table('', ('', *names), rows)}"


def _verdict_plot(verdicts: VerdictReport, found: Sequence[Column]) -> str:
    words = [
        (f"verdict {word}", word) for word in BAD if any(each.verdicts[word] for each in found)
    ]
    legend = _legend(
        [*words, ("stale", "the stalest answer"), ("changes", "changes of the cluster")]
    )
    counts = _table(
        f"Verdicts; slack {verdicts.slack_ms:g} ms",
        tuple(verdicts.counts),
        [tuple(verdicts.counts.values())],
    )
    reasons = ""
    if verdicts.undecided:
        behind = (
            f"; behind by {' '.join(f'{each.name} {duration(each)}' for each in verdicts.behind)}"
        )
        counted = ", ".join(f"{word} {count}" for word, count in verdicts.undecided.items())
        reasons = f"<p>Undecided: {escape(counted + behind)}.</p>"
    names = ""
    if verdicts.stale_names:
        rows = [
            (
                each.name,
                each.type,
                each.count,
                us_to_text(each.worst_age_ms * 1000),
                f"{each.first_s:.1f} s",
            )
            for each in verdicts.stale_names
        ]
        names = _table(
            "The stalest names", ("name", "type", "stale answers", "at most by", "first at"), rows
        )
    return _plot("Right or wrong", plots.staleness(found), legend, counts + reasons + names)  # fmt: skip


_LINES: Final = (
    ("p50", "p50"),
    ("p99", "p99"),
    ("p999", "p99.9; gaps: left out or lost"),
    ("late", "p99 of the generator's lateness"),
)


def _slowest(report: Report) -> list[tuple[str, str]]:
    found = [("p50", "latency"), ("late", "the generator's lateness")]
    if any(each.why == "generator" for each in report.latency):
        found.append(("refused", "left out: the generator was the limit"))
    if report.counts.lost:
        found.append(("rcode lost faint", "lost"))
    return found


def _seen_rcodes(found: Sequence[Column]) -> list[tuple[str, str]]:
    names = (*KNOWN, OTHER)
    return [
        (f"rcode {name.lower()}", name)
        for name in names
        if any(each.rcodes[name] for each in found)
    ]


def _legend(entries: Iterable[tuple[str, str]]) -> str:
    items = []
    for style, text in entries:
        if style in ("p50", "p99", "p999", "late", "stale"):
            shape = f'<path class="{style}" fill="none" d="M0 5h18"/>'
        else:
            shape = f'<rect class="{style}" width="18" height="10"/>'
        items.append(
            f'<li><svg viewBox="0 0 18 10" aria-hidden="true">{shape}</svg>{escape(text)}</li>'
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _plot(title: str, drawing: str, legend: str, below: str = "") -> str:
    if not drawing:
        return ""
    figure = (
        f'{legend}<figure class="scroll" tabindex="0" role="group" aria-label="{escape(title)}">'
        f"{drawing}</figure>"
    )
    return _section(title, figure + below)


def _seconds(report: Report) -> str:
    rcodes = sorted({rcode for each in report.per_second for rcode in each.counts.rcodes})
    words = [word for word in VERDICTS if any(word in each.verdicts for each in report.per_second)]
    names = [each.name for each in report.latency]
    judged = ("changes", "stalest") if report.verdicts is not None else ()
    head = ("second", *rcodes, "lost", *names, "late p99", *words, *judged)
    rows = []
    for each in report.per_second[:MOST_ROWS]:
        late = next(figure for figure in each.lateness if figure.name == "p99")
        age = us_to_text(each.worst_age_ms * 1000) if each.worst_age_ms else ""
        rows.append(
            (
                each.second,
                *(each.counts.rcodes.get(rcode, 0) for rcode in rcodes),
                each.counts.lost,
                *(duration(figure) for figure in each.latency),
                duration(late),
                *(each.verdicts.get(word, 0) for word in words),
                *((each.changes, age) if judged else ()),
            )
        )
    more = len(report.per_second) - MOST_ROWS
    note = f"<p>{more} more seconds are in the JSON report.</p>" if more > 0 else ""
    table = _table("What the plots show", head, rows)
    return f"<details><summary>Table of {len(rows)} seconds</summary>{table}{note}</details>"


def _kinds(report: Report) -> str:
    names = [each.name for each in report.latency]
    rows = [
        (
            f"{each.group} {each.type}",
            each.counts.sent,
            each.counts.lost,
            answers(each.counts),
            *(duration(figure) for figure in each.latency),
        )
        for each in report.kinds
    ]
    return _table("", ("kind", "sent", "lost", "answers", *names), rows)


def _plan(report: Report) -> str:
    plan, machine = report.plan, report.machine
    edns = f"EDNS {plan.edns}" if plan.edns else "no EDNS"
    rows = [
        ("target", f"{plan.target} over {plan.transport}"),
        ("rate", f"{rates(plan.stages)}, {arrival(plan.arrival, plan.burst)}, seed {plan.seed}"),
        ("questions", plan.what),
        (
            "queries",
            f"{plan.sockets} sockets, lost after {plan.timeout_ms:g} ms, {edns}",
        ),
        ("changes", f"{plan.churn:g} a second" if plan.churn else "none made by this run"),
        (
            "generator",
            f"hsdns {machine.hsdns}, Python {machine.python}, sockets by {machine.sockets_by}",
        ),
        ("machine", f"{machine.system}, {machine.processors} processors"),
    ]
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="wide" style="text-align:left">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return f"<table><tbody>{body}</tbody></table>"  # fmt: skip


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _table(caption: str, head: Sequence[str], rows: Rows) -> str:
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    cells = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(each))}</td>' for each in row)}</tr>" for row in rows
    )
    table = f"<table>{told}<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(caption or "Table")}">{table}</div>'
