"""The report of an audit as text, for a terminal or a log.

Path: report.py -> here -> cli/audit.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hsdns.audit.report import AuditReport, Finding, ServerReport
from hsdns.load.histogram import us_to_text
from hsdns.load.verify.judge import STALE

MOST_LINES: Final = 10  # findings shown for a server
MOST_RECORDS: Final = 3


def lines(reports: Sequence[AuditReport]) -> list[str]:
    """The report, line by line; a table of all servers at the end if there are several clusters."""
    found: list[str] = []
    for report in reports:
        found += [*_cluster(report), ""]
    if len(reports) > 1:
        found += _fleet(reports)
    return found[:-1] if found[-1] == "" else found


def verdicts(server: ServerReport) -> str:
    """The number of answers with each word, as text."""
    return ", ".join(f"{count} {word}" for word, count in server.counts.items())


def what_is_wrong(found: Finding) -> str:
    """A finding as text."""
    parts = [found.word]
    if found.word == STALE:
        parts[0] = f"stale by {seconds(found.age_ms)}"
    if found.word == "slow" and found.latency_ms is not None:
        parts[0] = f"slow: {seconds(found.latency_ms)}"
    if found.reason:
        parts.append(found.reason)
    for label, records in (("lacks", found.lacks), ("has", found.has)):
        if records:
            more = len(records) - MOST_RECORDS
            shown = ", ".join(records[:MOST_RECORDS]) + (f" and {more} more" if more > 0 else "")
            parts.append(f"{label} {shown}")
    return "; ".join(parts)


def seconds(ms: float) -> str:
    """A time as text."""
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def _cluster(report: AuditReport) -> Iterator[str]:
    asked = f"{report.names} names that exist, {report.absent} that must not"
    yield f"{report.cluster}: {asked}, in {report.seconds:.1f} s"
    if report.ended:
        yield f"NOT WHOLE  {report.ended}; {report.skipped} of them were not asked everywhere"
    width = max(len(each.server) for each in report.servers)
    for server in report.servers:
        figures = ", ".join(f"{name} {latency(us)}" for name, us in server.latency_us.items())
        yield f"{server.server.ljust(width)}  {verdicts(server) or 'nothing asked'}; {figures}"
        if server.worst_age_ms:
            yield f"{' ' * width}  behind by {seconds(server.worst_age_ms)} at most"
        if server.alone:
            yield f"{' ' * width}  {server.alone} of them another server answers right"
    for server in report.servers:
        if not server.bad:
            continue
        yield ""
        yield server.server
        for each in server.findings[:MOST_LINES]:
            yield f"  {each.name} {each.type}: {what_is_wrong(each)}"
        more = server.bad - min(MOST_LINES, len(server.findings))
        if more:
            yield f"  and {more} more; -o json lists them"


def latency(us: int | None) -> str:
    """A percentile as text."""
    return "lost" if us is None else us_to_text(us)


def _fleet(reports: Sequence[AuditReport]) -> Iterator[str]:
    rows = [("cluster", "server", "names", "not right", "worst age", "p99")]
    for report in reports:
        for each in report.servers:
            p99 = each.latency_us.get("p99")
            rows.append(
                (
                    report.cluster,
                    each.server,
                    str(report.names),
                    str(each.bad),
                    seconds(each.worst_age_ms) if each.worst_age_ms else "-",
                    latency(p99),
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
