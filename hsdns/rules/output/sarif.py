"""Findings in SARIF 2.1.0, which editors and code hosts show at their lines.

Path: output/__init__.py -> here.
Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from hsdns import __version__
from hsdns.rules.finding import Edit, Finding
from hsdns.rules.mesh import SITE as MESH_SITE
from hsdns.rules.mesh import TOOL, MeshFinding
from hsdns.rules.output import Report
from hsdns.rules.output.document import lines_of
from hsdns.rules.rule import SITE, Rule

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def write(report: Report) -> list[str]:
    """The report as the log of one run, line by line."""
    findings = [*report.findings, *report.silenced]
    rules = {each.rule.code: each.rule for each in findings}
    order = sorted(rules)
    driver = {
        "name": "hsdns lint",
        "version": __version__,
        "informationUri": SITE,
        "rules": [_descriptor(rules[code]) for code in order],
    }
    notes = [{"level": "warning", "message": {"text": each}} for each in report.unread]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not report.unread, "toolExecutionNotifications": notes}
        ],
        "results": [_result(each, order) for each in findings],
    }
    runs = [run, _of_mesh(report.mesh)] if report.mesh else [run]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": runs}
    return lines_of(log)


def _of_mesh(mesh: Sequence[MeshFinding]) -> dict[str, Any]:
    """A separate run, because the findings are those of another tool."""
    pages = {each.code: each.page for each in mesh}
    driver = {
        "name": TOOL,
        "informationUri": MESH_SITE,
        "rules": [{"id": code, "helpUri": page} for code, page in sorted(pages.items())],
    }
    results = []
    for each in mesh:
        location: dict[str, Any] = {}
        if each.at is not None:
            place = {"uri": _uri(each.at.file)}
            region = {"startLine": each.at.line}
            location["physicalLocation"] = {"artifactLocation": place, "region": region}
        if each.place:
            location["logicalLocations"] = [{"fullyQualifiedName": each.place}]
        results.append(
            {
                "ruleId": each.code,
                "level": each.level,
                "message": {"text": each.message},
                "locations": [location] if location else [],
            }
        )
    return {"tool": {"driver": driver}, "results": results}


def _descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": " ".join(rule.what.split())},
        "help": {"text": rule.section("Fix"), "markdown": rule.text},
        "helpUri": rule.page,
        "defaultConfiguration": {"level": rule.level, "enabled": not rule.is_preview},
        "properties": {"state": rule.state},
    }


def _result(finding: Finding, order: list[str]) -> dict[str, Any]:
    remark = finding.remark
    place = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(remark.position.file)},
            "region": {"startLine": remark.position.line, "startColumn": remark.position.column},
        },
    }
    names = [{"fullyQualifiedName": f"{remark.place}: {remark.field}"}] if remark.place else []
    found: dict[str, Any] = {
        "ruleId": finding.rule.code,
        "ruleIndex": order.index(finding.rule.code),
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{**place, **({"logicalLocations": names} if names else {})}],
    }
    if finding.silenced:
        kind = "external" if finding.is_outside else "inSource"
        found["suppressions"] = [{"kind": kind, "justification": finding.silenced}]
    if remark.edit is not None:
        found["fixes"] = [_fix(remark.edit)]
    return found


def _fix(edit: Edit) -> dict[str, Any]:
    region = {
        "startLine": edit.start.line,
        "startColumn": edit.start.column,
        "endLine": edit.end.line,
        "endColumn": edit.end.column,
    }
    change = {
        "artifactLocation": {"uri": _uri(edit.start.file)},
        "replacements": [{"deletedRegion": region, "insertedContent": {"text": edit.text}}],
    }
    return {"artifactChanges": [change]}


def _uri(file: str) -> str:
    return quote(os.fsencode(file.removeprefix("./")))
