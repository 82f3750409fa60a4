"""Findings as lines of text: one for each, then the pages of their rules, then a line with counts.

Path: output/__init__.py -> here.
"""

from __future__ import annotations

from hsdns.rules.mesh import TOOL
from hsdns.rules.output import Report
from hsdns.rules.rule import LEVELS
from hsdns.wire import printable


def write(report: Report) -> list[str]:
    """The report for a terminal, line by line."""
    lines = [str(each) for each in report.findings]
    pages = {each.rule.code: each.rule for each in report.findings}
    if pages:
        lines += [
            "",
            *(f"{code} {rule.title}: {rule.page}" for code, rule in sorted(pages.items())),
        ]
    if report.mesh:
        lines += ["", f"{TOOL} finds:", *(f"{each}: {each.page}" for each in report.mesh)]
    counts = [
        _counted(sum(each.level == level for each in report.findings), level) for level in LEVELS
    ]
    found = ", ".join(each for each in counts if each) or "nothing found"
    where = f"{_counted(report.objects, 'object') or 'no objects'} of {_counted(report.files, 'file') or 'no files'}"
    more = []
    if report.below:
        more.append(f"{_counted(report.below, 'finding')} below the -level")
    if report.mesh:
        more.append(f"{_counted(len(report.mesh), 'finding')} of istioctl")
    if report.silenced:
        more.append(f"{len(report.silenced)} silenced")
    if report.unread:
        more.append(f"{len(report.unread)} not checked")
    if lines:
        lines.append("")
    lines.append(f"{found} in {where}" + (f" ({', '.join(more)})" if more else ""))
    return list(map(printable, lines))


def _counted(count: int, noun: str) -> str:
    return "" if not count else f"{count} {noun}" if count == 1 else f"{count} {noun}s"
