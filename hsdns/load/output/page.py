"""The report of a run, or a comparison of several runs, as one HTML file; an audit has such a page too.

Path: report.py -> here -> report.html with the report in it as JSON; for cli/reports.py, audit/page.py.
Rule 1: the file is complete: its script and uPlot, which draws the plots (uplot/LICENSE), are in it, and a
        Content-Security-Policy allows only these by their hashes, and nothing from a network.
Rule 2: the report is data in a script element: "<" is escaped there, and the script makes text nodes of it only.
Rule 3: the script draws plots, and tables with their numbers.  Sentences that text.py prints too are made here.
Rule 4: the file of a long run stays small: its seconds are drawn in at most MOST columns, and its table has the first
        MOST_ROWS.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from math import floor, log2
from typing import Any, Final

import msgspec

from hsdns.http_page import content_policy
from hsdns.load.histogram import Histogram, Percentile, highest_in
from hsdns.load.output.words import (
    Shown,
    comparison,
    differences,
    limited,
    machine_words,
    plan_words,
    rates,
    shown,
    unmatched,
)
from hsdns.load.report import Report, plain
from hsdns.load.results import Second, ServerReport, together
from hsdns.load.verify.judge import NOT_BAD, RIGHT, UNJUDGED, VERDICTS
from hsdns.wire import printable

MOST: Final = 150  # columns of a server
MOST_TOGETHER: Final = 300  # of all servers on a page
MOST_ROWS: Final = 1000  # in the tables of seconds, of all servers
BANDS: Final = 4  # of a histogram, for each doubling of its values
_WITH_COLOURS: Final = ("NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED")
_UPLOT: Final = {
    "uplot.license": "LICENSE",
    "uplot.js": "uPlot.iife.min.js",
    "uplot.css": "uPlot.min.css",
}
_LIMITS: Final = {True: ("bad", "Failed"), False: ("good", "Held"), None: ("warn", "Unknown")}

Note = tuple[str, str, str]  # its style, its first word, and its text


def page(report: Report) -> str:
    """The page of a run."""
    return comparison_page(shown(report))


def comparison_page(servers: Sequence[Shown]) -> str:
    """The page of several servers, of one run or of several."""
    reports = [
        each.report
        for at, each in enumerate(servers)
        if each.report not in [before.report for before in servers[:at]]
    ]
    is_one = len(servers) == 1
    sections: list[Any] = []
    if not is_one:
        rows = [(label, *cells) for label, cells in comparison(servers)]
        names = ("", *(each.name for each in servers))
        sections.append(["Side by side", ["table", "The servers", names, rows], ["compared"]])
    sections += [
        ["The search for the knee", ["knee", each.knee]]
        for each in reports
        if each.knee is not None and each.knee.steps
    ]
    return document(
        f"Load on {servers[0].server.target if is_one else f'{len(servers)} servers'}",
        subtitles=[_subtitle(each) for each in reports],
        notes=_notes(servers),
        sections=sections,
        servers=[_server(each, len(servers)) for each in servers],
        last=[["Plan and machine", *(["facts", [*_plan(each)]] for each in reports)]],
    )


def document(
    title: str,
    subtitles: Sequence[str],
    notes: Iterable[Note],
    sections: Sequence[Any],
    servers: Sequence[Any] = (),
    last: Sequence[Any] = (),
) -> str:
    """The file.

    A section has a heading and blocks, each with the name of a function in BLOCKS of report.html and its arguments.
    `servers` have the sections of a load, and `last` are sections after these.
    """
    data = {"title": title, "subtitles": subtitles, "notes": [*notes], "sections": sections}
    data |= {"servers": servers, "last": last}
    octets = msgspec.json.encode(_printable(msgspec.to_builtins(data, str_keys=True)))
    folder = files("hsdns.load.output")
    parts = {
        "title": html.escape(printable(title)),
        "data": octets.decode().replace("<", "\\u003c"),
        "policy": "",
        **{name: (folder / "uplot" / file).read_text("utf-8") for name, file in _UPLOT.items()},
    }
    template = (folder / "report.html").read_text("utf-8")
    policy = content_policy(_filled(template, parts))
    return _filled(template, {**parts, "policy": policy})


def _filled(template: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{\{([a-z.]+)\}\}", lambda found: parts[found[1]], template)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(name): _printable(each) for name, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


def bands(slots: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The counts of a histogram in BANDS for each doubling of its values."""
    found: Counter[int] = Counter()
    for slot, count in slots:
        found[floor(log2(max(highest_in(slot), 1)) * BANDS)] += count
    return dict(found)


def _server(of: Shown, servers: int) -> Mapping[str, Any]:
    """A server: its report with the first seconds, and its histograms as plots need them."""
    report, rows, whole = of.server, MOST_ROWS // servers, together(of.server.per_second)
    first = msgspec.structs.replace(report, per_second=report.per_second[:rows])
    found = _without_slots(plain(first))
    if report.connections is not None:
        found["connections"]["bands"] = bands(report.connections.slots.pairs())
    return {
        "name": of.name,
        "report": found,
        "columns": columns(report, min(MOST, MOST_TOGETHER // servers)),
        "slots": _values(whole.slots),
        "service": _values(whole.service_slots),
        "more": max(0, len(report.per_second) - rows),
    }  # fmt: skip


def _values(slots: Histogram) -> list[tuple[int, int]]:
    return [(highest_in(slot), count) for slot, count in slots.pairs()]


def _without_slots(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_slots(each) for name, each in value.items() if not name.endswith("slots")
        }
    return [_without_slots(each) for each in value] if isinstance(value, list) else value  # fmt: skip


def columns(report: ServerReport, most: int = MOST) -> list[Mapping[str, Any]]:
    """The seconds of a report in at most `most` columns without gaps; rates are per second."""
    if not report.per_second:
        return []
    last = report.per_second[-1].second + 1
    width = -(-last // most)
    parts: list[list[Second]] = [[] for _ in range(-(-last // width))]
    for each in report.per_second:
        parts[each.second // width].append(each)
    length = min(report.seconds, last) if report.seconds else last
    found: list[Mapping[str, Any]] = []
    for number, part in enumerate(parts):
        # The last second of a run may be shorter than one.
        seconds = max(min(width, length - number * width), 0.1)
        rates = _column(part, seconds)
        found.append({"first": number * width, "seconds": width, **rates})
    return found


def _column(part: Sequence[Second], seconds: float) -> Mapping[str, Any]:
    whole = together(part)
    rcodes: Counter[str] = Counter()
    for rcode, count in whole.counts.rcodes.items():
        rcodes[rcode if rcode in _WITH_COLOURS else "other"] += count
    rcodes["lost"] = whole.counts.lost - whole.counts.unknown
    rcodes["unknown"] = whole.counts.unknown
    latencies, lateness = [each.latency for each in part], [each.lateness for each in part]
    figures = {name: _worst(latencies, name) for name in ("p50", "p99", "p99.9")}
    verdicts = {word: count for word, count in whole.verdicts.items() if word != RIGHT}
    return {
        "rcodes": {rcode: count / seconds for rcode, count in rcodes.items() if count},
        "verdicts": {word: count / seconds for word, count in verdicts.items() if count},
        "bands": bands(whole.slots.pairs()),
        "figures": figures | {"late": _worst(lateness, "p99")},
        "late": whole.counts.late > 0,
        "worst_age_ms": whole.worst_age_ms,
        "changes": whole.changes / seconds,
    }  # fmt: skip


def _worst(found: Sequence[Sequence[Percentile]], name: str) -> int | None:
    """The highest figure of the seconds; None if one of them has none."""
    values = [each.us for figures in found for each in figures if each.name == name]
    known = [each for each in values if each is not None]
    return max(known, default=None) if len(known) == len(values) else None


def _subtitle(report: Report) -> str:
    plan = report.plan
    found = f"{report.started}, {rates(plan.stages)} over {plan.transport}"
    if len(report.servers) > 1:
        return f"{found} to each of {', '.join(each.name for each in report.servers)}"
    (server,) = report.servers
    return f"{found}; {server.seconds:g} s, {server.counts.sent} queries, {server.counts.answered} answered"


def _notes(servers: Sequence[Shown]) -> Iterator[Note]:
    """The notes at the top."""
    knee = servers[0].report.knee
    if knee is not None:
        yield "good" if knee.found else "warn", "Knee", f"{knee.sentence}."
    for sentence in differences(servers):
        yield "warn", "Not alike", f"{sentence}."
    for each in servers:
        of = f"{each.name}: " if len(servers) > 1 else ""
        server = each.server
        if server.ended:
            text = f"{of}{server.ended}; the figures are of the {server.seconds:g} s until then."
            yield "bad", "Not whole", text
        if told := unmatched(server):
            yield "warn", "No answer", f"{of}{told}."
        if server.withheld:
            yield "warn", "Withheld", f"{of}{server.withheld}."
        for note in server.notes:
            yield "warn", "Note", f"{of}{note}."
        for limit in server.limits:
            style, word = _LIMITS[limit.met]
            yield style, word, f"{of}{limit.limit}: {limited(limit)}"
        if server.verdicts is not None:
            counts = server.verdicts.counts
            bad = [word for word in VERDICTS if counts[word] and word not in NOT_BAD]
            told = ", ".join(f"{counts[word]} {word}" for word in bad)
            judged = sum(counts.values()) - counts.get(UNJUDGED, 0)
            if told:
                yield "bad", "Not right", f"{of}{told}, of {judged} answers that were checked."
            elif judged:
                changes = server.verdicts.changes
                text = f"{of}no answer of {judged} was stale or wrong, under {changes} changes."
                yield "good", "Right", text


def _plan(report: Report) -> Iterator[tuple[str, str]]:
    plan, machine = report.plan, report.machine
    edns = f"EDNS {plan.edns}" if plan.edns else "no EDNS"
    for each in report.servers:
        name = each.name if each.name != each.target else "target"
        yield name, f"{each.target} over {plan.transport}"
    yield "rate", plan_words(plan)
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
    by = f"Python {machine.python}, sockets by {machine.sockets_by}"
    yield "generator", f"hsdns {machine.hsdns}, {by}"
    yield "machine", f"{machine.system}, {machine.processors} processors"
    for each in report.servers:
        for told in machine_words(each):
            yield each.name if len(report.servers) > 1 else "during the run", told
