"""Findings as commands of a GitHub workflow, which shows them at their lines.

Path: output/__init__.py -> here.
Source: GitHub, Workflow commands for GitHub Actions, with the escapes of @actions/core.
"""

from __future__ import annotations

from typing import Final

from hsdns.corefile.tree import Position
from hsdns.rules.output import Report
from hsdns.wire import printable

_WORDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def write(report: Report) -> list[str]:
    """The report, a line for each finding."""
    lines = [
        annotation(
            _WORDS[each.level],
            each.remark.position,
            f"{each.rule.code} {each.rule.title}",
            f"{each.message} ({each.rule.page})",
        )
        for each in report.findings
    ]
    lines += [
        annotation(_WORDS[each.level], each.at, each.code, f"{each.message} ({each.page})")
        for each in report.mesh
    ]
    lines += [annotation("warning", None, "", each) for each in report.unread]
    return lines


def annotation(word: str, at: Position | None, title: str, message: str) -> str:
    """One command: `word` is error, warning or notice; without a position it has no title."""
    place = ""
    if at is not None:
        file = _escaped(at.file, is_property=True)
        place = (
            f" file={file},line={at.line},col={at.column},title={_escaped(title, is_property=True)}"
        )
    return f"::{word}{place}::{_escaped(message)}"


def _escaped(text: str, *, is_property: bool = False) -> str:
    found = printable(text).replace("%", "%25")
    return found.replace(":", "%3A").replace(",", "%2C") if is_property else found
