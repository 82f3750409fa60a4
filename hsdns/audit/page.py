"""The report of an audit as one self-contained HTML file.

Path: report.py -> here -> load/output/markup.py, load/output/svg.py; cli/audit.py writes it (-html).
Rule 1: it has no script, no font and no external resource: the file can be sent, and opened without a network.
Rule 2: the table of servers has the data of the bars, for screen readers, for print, and for the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hsdns.audit.answers import ERROR, LOST
from hsdns.audit.report import SLOW, TTL, WORDS, AuditReport, ServerReport
from hsdns.audit.text import latency, seconds, what_is_wrong
from hsdns.load.output import svg
from hsdns.load.output.markup import escape, figure, legend, notes, paragraph, section, table
from hsdns.load.output.page import document
from hsdns.load.verify.judge import RIGHT

# The classes of load/output/page.html with the colours of verdicts.
_STYLES: Final = {
    RIGHT: "rcode noerror",
    ERROR: "rcode servfail",
    LOST: "rcode lost",
    SLOW: "rcode nxdomain",
    TTL: "rcode other",
}
_BAR: Final = 16.0  # pixels


def page(reports: Sequence[AuditReport]) -> str:
    """The page; one table has the servers of all clusters."""
    title = f"Audit of {reports[0].cluster if len(reports) == 1 else f'{len(reports)} clusters'}"
    servers = [(each, server) for each in reports for server in each.servers]
    body = [
        f"<h1>{escape(title)}</h1>",
        *(paragraph(_subtitle(each), "soft") for each in reports),
        notes(_notes(reports)),
        section("Servers", _bars(servers) + _servers(servers, len(reports) > 1)),
    ]
    for report, server in servers:
        if server.findings:
            name = server.server if len(reports) == 1 else f"{report.cluster}: {server.server}"
            body.append(section(name, _findings(server)))
    return document(title, body)


def _subtitle(report: AuditReport) -> str:
    return (
        f"{report.cluster}: {report.started}, {report.seconds:.1f} s; {report.names} names that exist, "
        f"{report.absent} that must not"
    )


def _notes(reports: Sequence[AuditReport]) -> Iterator[tuple[str, str, str]]:
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


def _bars(servers: Sequence[tuple[AuditReport, ServerReport]]) -> str:
    """Shares of the verdicts: a bar for each server, as wide as the page."""
    drawn: list[str] = []
    seen: dict[str, None] = {}
    for _, server in servers:
        shares = _exclusive(server)
        x, total = 0.0, max(1, sum(count for _, count in shares))
        parts = []
        for word, count in shares:
            width = count / total * svg.WIDTH
            seen[word] = None
            parts.append(svg.rectangles([(x, 0, max(width, 1.5), _BAR)], _style(word)))
            x += width
        told = ", ".join(f"{count} {word}" for word, count in server.counts.items())
        drawn.append(
            f'<p class="soft">{escape(server.server)}</p>'
            f'<svg viewBox="0 0 {svg.WIDTH} {_BAR:g}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(told)}" style="min-width:0;height:{_BAR:g}px">{"".join(parts)}</svg>'
        )
    return figure(
        "Verdicts", "".join(drawn), legend((_style(word), word) for word in WORDS if word in seen)
    )


def _exclusive(server: ServerReport) -> list[tuple[str, int]]:
    """Counts without overlap: slow answers and those with a high TTL are also counted as right."""
    counts = dict(server.counts)
    for word in (SLOW, TTL):
        if word in counts:
            counts[RIGHT] = counts.get(RIGHT, 0) - counts[word]
    return [(word, counts[word]) for word in WORDS if counts.get(word, 0) > 0]


def _style(word: str) -> str:
    return _STYLES.get(word, f"verdict {word}")


def _servers(servers: Sequence[tuple[AuditReport, ServerReport]], has_clusters: bool) -> str:
    words = [word for word in WORDS if any(word in server.counts for _, server in servers)]
    head = ["server", *words, "only here", "worst age", "p50", "p99", "max"]

    def rows() -> Iterable[Sequence[object]]:
        for report, server in servers:
            row: list[object] = [server.server, *(server.counts.get(word, 0) for word in words)]
            row += [server.alone, seconds(server.worst_age_ms) if server.worst_age_ms else "-"]
            row += [latency(server.latency_us.get(name)) for name in ("p50", "p99", "max")]
            yield [report.cluster, *row] if has_clusters else row

    caption = (
        "Answers by verdict; “only here” are those that another server of the cluster answers right"
    )
    return table(caption, ["cluster", *head] if has_clusters else head, rows())


def _findings(server: ServerReport) -> str:
    found = notes(
        (
            "warn" if each.word in (SLOW, TTL) else "bad",
            f"{each.name} {each.type}",
            what_is_wrong(each),
        )
        for each in server.findings
    )
    return found + (paragraph(f"and {server.more} more") if server.more else "")
