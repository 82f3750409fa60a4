"""The report of a run, or a comparison of several runs, as one self-contained HTML file.

Path: report.py -> here -> topics.py, markup.py; cli/load.py writes it (-html), and cli/compare.py.
Rule 1: it has no script, no font and no external resource: the file can be sent, and opened without a network.
Rule 2: a table after each plot has its data, for screen readers, for print, and for the numbers.
Rule 3: a section has one subject; with several servers it has a part for each, on the same axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from hsdns.load.output import beside, knee_plot, spread
from hsdns.load.output.columns import MOST, MOST_TOGETHER, columns
from hsdns.load.output.markup import (
    escape,
    facts,
    figure,
    legend,
    notes,
    paragraph,
    part,
    section,
    table,
)
from hsdns.load.output.topics import TOPICS, Part
from hsdns.load.output.words import Shown, arrival, comparison, differences, limited, rates, shown
from hsdns.load.report import Report
from hsdns.load.verify.judge import VERDICTS


def page(report: Report) -> str:
    """The page of a run."""
    return _page(shown(report), [report])


def comparison_page(servers: Sequence[Shown]) -> str:
    """The page of several runs."""
    reports: list[Report] = []
    for each in servers:
        if each.report not in reports:
            reports.append(each.report)
    return _page(servers, reports)


def _page(servers: Sequence[Shown], reports: Sequence[Report]) -> str:
    is_one = len(servers) == 1
    title = f"Load on {servers[0].server.target if is_one else f'{len(servers)} servers'}"
    most = min(MOST, MOST_TOGETHER // len(servers))
    every = [columns(each.server, most) for each in servers]
    drawn = [found for found in every if found]
    changed = [each.server.propagation for each in servers if each.server.propagation is not None]
    connected = [each.server.connections for each in servers if each.server.connections is not None]
    parts = [
        Part(*each, found, drawn, len(servers), changed, connected)
        for each, found in zip(servers, every, strict=True)
    ]
    body = [
        f"<h1>{escape(title)}</h1>",
        *(paragraph(_subtitle(each), "soft") for each in reports),
        notes(_notes(servers)),
        "" if is_one else section("Side by side", _side_by_side(servers, parts)),
    ]
    knees = [knee_plot.knee(each.knee) for each in reports if each.knee is not None]
    body += [section("The search for the knee", text) for text in knees if text]
    for heading, draw in TOPICS:
        found = [(each.name, draw(each)) for each in parts]
        if is_one:
            body += [section(heading, text) for _, text in found if text]
        elif any(text for _, text in found):
            body.append(section(heading, "".join(part(name, text) for name, text in found if text)))
    body.append(section("Plan and machine", "".join(facts(_plan(each)) for each in reports)))
    return document(title, body)


def document(title: str, body: Sequence[str]) -> str:
    """The file, with its style; empty parts of the body are omitted."""
    template = (files("hsdns.load.output") / "page.html").read_text()
    return template.replace("{title}", escape(title)).replace(
        "{body}", "\n".join(filter(None, body))
    )


def _subtitle(report: Report) -> str:
    plan = report.plan
    found = f"{report.started}, {rates(plan.stages)} over {plan.transport}"
    if len(report.servers) > 1:
        return f"{found} to each of {', '.join(each.name for each in report.servers)}"
    (server,) = report.servers
    return f"{found}; {server.seconds:g} s, {server.counts.sent} queries, {server.counts.answered} answered"


def _notes(servers: Sequence[Shown]) -> Iterator[tuple[str, str, str]]:
    """The notes at the top."""
    knee = servers[0].report.knee
    if knee is not None:
        yield "good" if knee.found else "warn", "Knee", f"{knee.said}."
    for sentence in differences(servers):
        yield "warn", "Not alike", f"{sentence}."
    for each in servers:
        of = f"{each.name}: " if len(servers) > 1 else ""
        server = each.server
        if server.ended:
            text = f"{of}{server.ended}; the figures are of the {server.seconds:g} s until then."
            yield "bad", "Not whole", text
        if server.refused:
            yield "warn", "Left out", f"{of}{server.refused}."
        for limit in server.limits:
            style, word = _MET[limit.met]
            yield style, word, f"{of}{limit.limit}: {limited(limit)}"
        if server.verdicts is not None:
            counts = server.verdicts.counts
            told = [
                f"{counts[word]} {word}"
                for word in VERDICTS
                if counts[word] and word not in ("right", "undecided")
            ]
            judged = sum(counts.values())
            if told:
                yield (
                    "bad",
                    "Not right",
                    f"{of}{', '.join(told)}, of {judged} answers that were judged.",
                )
            elif judged:
                changes = server.verdicts.changes
                text = f"{of}no answer of {judged} was stale or wrong, under {changes} changes."
                yield "good", "Right", text


_MET = {True: ("bad", "Failed"), False: ("good", "Held"), None: ("warn", "Unknown")}


def _side_by_side(servers: Sequence[Shown], parts: Sequence[Part]) -> str:
    names = [each.name for each in servers]
    rows = [(row.label, *row.cells) for row in comparison(servers)]
    key = legend([(beside.style(number), name) for number, name in enumerate(names)])
    found = [each.server.propagation for each in servers]
    plots = (
        ("Latency against the slowest share", beside.slowest([each.server for each in servers])),
        ("Age of the stalest answer", beside.ages([each.columns for each in parts])),
        (
            "Added: until the first new answer",
            spread.shares(found, spread.first_new, True, beside.style),
        ),
        (
            "Removed: until the last old answer",
            spread.shares(found, spread.last_old, False, beside.style),
        ),
    )
    drawn = [part(title, figure(title, plot, key)) for title, plot in plots if plot]
    return table("The servers", ("", *names), rows) + "".join(drawn)


def _plan(report: Report) -> Iterator[tuple[str, str]]:
    plan, machine = report.plan, report.machine
    edns = f"EDNS {plan.edns}" if plan.edns else "no EDNS"
    for each in report.servers:
        yield (
            each.name if each.name != each.target else "target",
            f"{each.target} over {plan.transport}",
        )
    portion = f", part {plan.part} of it" if plan.part else ""
    rate = f"{rates(plan.stages)}, {arrival(plan.arrival, plan.burst)}, seed {plan.seed}{portion}"
    yield "rate", rate
    if report.generators > 1:
        yield "generators", str(report.generators)
    yield "questions", plan.what
    yield "queries", f"{plan.sockets} sockets, lost after {plan.timeout_ms:g} ms, {edns}"
    kinds = ", ".join(f"{kind} {share}" for kind, share in plan.churn_kinds.items())
    yield "changes", f"{plan.churn:g} a second: {kinds}" if plan.churn else "none made by this run"
    if plan.probes:
        by_each = " of each generator" if report.generators > 1 else ""
        told = f"at most {plan.probes:g} questions a second{by_each} beside the load follow changes"
        yield "probes", told
    yield (
        "generator",
        f"hsdns {machine.hsdns}, Python {machine.python}, sockets by {machine.sockets_by}",
    )
    yield "machine", f"{machine.system}, {machine.processors} processors"
