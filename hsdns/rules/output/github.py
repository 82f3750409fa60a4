"""Findings as commands of a GitHub workflow, which shows them at their lines.

Path: output/__init__.py -> here.
Source: GitHub, Workflow commands for GitHub Actions, with the escapes of @actions/core.
"""

from __future__ import annotations

from typing import Final

from hsdns.rules.output import Report

_WORDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def write(report: Report) -> str:
    """The report, a line for each finding."""
    lines = []
    for each in report.findings:
        file, line, column = each.remark.position
        title = _escaped(f"{each.rule.code} {each.rule.title}", is_property=True)
        place = f"file={_escaped(file, is_property=True)},line={line},col={column},title={title}"
        lines.append(
            f"::{_WORDS[each.level]} {place}::{_escaped(f'{each.message} ({each.rule.page})')}\n"
        )
    lines += [f"::warning::{_escaped(each)}\n" for each in report.unread]
    return "".join(lines)


def _escaped(text: str, *, is_property: bool = False) -> str:
    found = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return found.replace(":", "%3A").replace(",", "%2C") if is_property else found
