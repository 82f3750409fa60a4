"""Findings as one JSON object.

Path: output/__init__.py -> here.
"""

from __future__ import annotations

import json

from hsdns.rules.finding import Finding
from hsdns.rules.output import Report
from hsdns.wire import printable


def write(report: Report) -> list[str]:
    """The report as JSON, line by line."""
    value = {
        "findings": [as_json(each) for each in report.findings],
        "silenced": [{**as_json(each), "reason": each.silenced} for each in report.silenced],
        "istioctl": [each.as_json() for each in report.mesh],
        "below": report.below,
        "objects": report.objects,
        "files": report.files,
        "unread": report.unread,
    }
    return lines_of(value)


def lines_of(value: object) -> list[str]:
    """The lines of a value as JSON: printable() makes escapes of JSON."""
    return [printable(each) for each in json.dumps(value, indent=2, ensure_ascii=False).split("\n")]


def as_json(finding: Finding) -> dict[str, object]:
    """One finding as a JSON object."""
    rule, remark = finding.rule, finding.remark
    return {
        "code": rule.code,
        "name": rule.name,
        "level": finding.level,
        **remark.position._asdict(),
        "object": remark.place,
        "field": remark.field,
        "message": remark.sentence,
        "page": rule.page,
        "repaired": remark.edit is not None,
    }
