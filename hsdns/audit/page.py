"""The report of an audit as one HTML file.

Path: report.py -> here -> load/output/page.py, with its rules; audit/cli.py writes it (-html).
Rule: the table of servers has the data of the bars, for screen readers, for print, and for the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hsdns.audit.report import (
    SLOW,
    TTL,
    WORDS,
    AuditReport,
    ServerReport,
    age,
    latency,
    seconds,
    what_is_wrong,
)
from hsdns.audit.run import ERROR
from hsdns.load.output.page import Note, document
from hsdns.load.verify.judge import RIGHT

# Colours of report.html; the other words have one of their own.
COLOURS: Final = {RIGHT: "noerror", ERROR: "servfail", SLOW: "nxdomain", TTL: "other"}
_CAPTION: Final = (
    "Answers by verdict; “only here” are those that another server of the cluster answers right"
)
OfCluster = tuple[AuditReport, ServerReport]


def page(reports: Sequence[AuditReport]) -> str:
    """The page; one table has the servers of all clusters."""
    is_one = len(reports) == 1
    servers = [(each, server) for each in reports for server in each.servers]
    named = [(s.server if is_one else f"{r.cluster}: {s.server}", s) for r, s in servers]
    bars = [(name, _exclusive(server)) for name, server in named]
    sections: list[Any] = [["Servers", ["bars", bars], ["table", *_servers(servers, not is_one)]]]
    sections += [[name, *_findings(server)] for name, server in named if server.findings]
    return document(
        f"Audit of {reports[0].cluster if is_one else f'{len(reports)} clusters'}",
        subtitles=[_subtitle(each) for each in reports],
        notes=_notes(reports),
        sections=sections,
    )


def _subtitle(report: AuditReport) -> str:
    return (
        f"{report.cluster}: {report.started}, {report.seconds:.1f} s; {report.names} names that exist, "
        f"{report.absent} that must not"
    )


def _notes(reports: Sequence[AuditReport]) -> Iterator[Note]:
    for report in reports:
        if report.ended:
            told = f"{report.ended}; {report.skipped} names were not queried on every server"
            yield (
                "bad",
                "Not whole",
                f"{report.cluster}: {told if report.servers else report.ended}",
            )
        for server in report.servers:
            worst = seconds(server.worst_age_ms)
            behind = f", behind by {worst} at most" if server.worst_age_ms else ""
            if server.bad:
                of = f"{report.cluster}: " if len(reports) > 1 else ""
                yield "bad", f"{of}{server.server}", f"{server.bad} findings{behind}"
    if not any(each.bad or each.ended for each in reports):
        yield "good", "Right", "every answer matches the cluster's objects"


def _exclusive(server: ServerReport) -> list[tuple[str, str, int]]:
    """Colours and counts without overlap: slow answers and those with a high TTL are also counted as right."""
    counts = Counter(server.counts)
    counts[RIGHT] -= counts[SLOW] + counts[TTL]
    return [(COLOURS.get(word, word), word, counts[word]) for word in WORDS if counts[word] > 0]


def _servers(servers: Sequence[OfCluster], has_clusters: bool) -> tuple[str, list[str], list[Any]]:
    """The caption, the head and the rows of the table."""
    words = [word for word in WORDS if any(word in server.counts for _, server in servers)]
    head = ["server", *words, "only here", "worst age", "p50", "p99", "max"]
    rows = [
        [
            *([report.cluster] if has_clusters else []),
            server.server,
            *(server.counts.get(word, 0) for word in words),
            server.alone,
            age(server),
            *map(latency, server.latency_us.values()),
        ]
        for report, server in servers
    ]
    return _CAPTION, ["cluster", *head] if has_clusters else head, rows


def _findings(server: ServerReport) -> Iterator[tuple[str, object]]:
    styles = dict.fromkeys((SLOW, TTL), "warn")
    yield (
        "notes",
        [
            (styles.get(each.word, "bad"), f"{each.name} {each.type}", what_is_wrong(each))
            for each in server.findings
        ],
    )
    if server.more:
        yield "paragraph", f"and {server.more} more"
