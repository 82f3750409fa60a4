"""The report of an audit as one HTML file.

Path: report.py -> here -> load/output/page.py, with its rules; cli/audit.py writes it (-html).
Rule: the table of servers has the data of the bars, for screen readers, for print, and for the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from hsdns.audit.report import (
    SLOW,
    TTL,
    WORDS,
    AuditReport,
    ServerReport,
    latency,
    seconds,
    what_is_wrong,
)
from hsdns.audit.run import ERROR, LOST
from hsdns.load.output.page import Note, document
from hsdns.load.verify.judge import RIGHT

# Colours of report.html; the other words have one of their own.
_COLOURS: Final = {
    RIGHT: "noerror",
    ERROR: "servfail",
    LOST: "lost",
    SLOW: "nxdomain",
    TTL: "other",
}


def page(reports: Sequence[AuditReport]) -> str:
    """The page; one table has the servers of all clusters."""
    is_one = len(reports) == 1
    servers = [(each, server) for each in reports for server in each.servers]
    bars = [
        (
            server.server,
            [(_COLOURS.get(word, word), word, count) for word, count in _exclusive(server)],
        )
        for _, server in servers
    ]
    sections: list[Any] = [["Servers", ["bars", bars], ["table", *_servers(servers, not is_one)]]]
    sections += [
        [server.server if is_one else f"{report.cluster}: {server.server}", *_findings(server)]
        for report, server in servers
        if server.findings
    ]
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
            yield (
                "bad",
                "Not whole",
                f"{report.cluster}: {report.ended}; {report.skipped} names were not asked everywhere",
            )
        for server in report.servers:
            if server.bad:
                yield (
                    "bad",
                    server.server,
                    f"{server.bad} findings"
                    + (
                        f", behind by {seconds(server.worst_age_ms)} at most"
                        if server.worst_age_ms
                        else ""
                    ),
                )
    if not any(each.bad or each.ended for each in reports):
        yield "good", "Right", "every answer is what the cluster's objects say"


def _exclusive(server: ServerReport) -> list[tuple[str, int]]:
    """Counts without overlap: slow answers and those with a high TTL are also counted as right."""
    counts = dict(server.counts)
    for word in (SLOW, TTL):
        if word in counts:
            counts[RIGHT] = counts.get(RIGHT, 0) - counts[word]
    return [(word, counts[word]) for word in WORDS if counts.get(word, 0) > 0]


def _servers(
    servers: Sequence[tuple[AuditReport, ServerReport]], has_clusters: bool
) -> tuple[str, list[str], list[list[object]]]:
    """The caption, the head and the rows of the table."""
    words = [word for word in WORDS if any(word in server.counts for _, server in servers)]
    head = ["server", *words, "only here", "worst age", "p50", "p99", "max"]
    rows = [
        [
            *([report.cluster] if has_clusters else []),
            server.server,
            *(server.counts.get(word, 0) for word in words),
            server.alone,
            seconds(server.worst_age_ms) if server.worst_age_ms else "-",
            *(latency(server.latency_us.get(name)) for name in ("p50", "p99", "max")),
        ]
        for report, server in servers
    ]
    caption = (
        "Answers by verdict; “only here” are those that another server of the cluster answers right"
    )
    return caption, ["cluster", *head] if has_clusters else head, rows


def _findings(server: ServerReport) -> Iterator[tuple[str, object]]:
    found = [
        (
            "warn" if each.word in (SLOW, TTL) else "bad",
            f"{each.name} {each.type}",
            what_is_wrong(each),
        )
        for each in server.findings
    ]
    yield "notes", found
    if server.more:
        yield "paragraph", f"and {server.more} more"
