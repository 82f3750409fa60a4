"""Findings in the formats of `hsdns lint -o`: text, JSON, SARIF, JUnit, and annotations of GitHub.

Path: lint/cli.py -> here -> standard output.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from hsdns import __version__, colours
from hsdns.colours import BOLD, CYAN, DIM, RED, YELLOW
from hsdns.corefile.tree import Position
from hsdns.rules.mesh import SITE as MESH_SITE
from hsdns.rules.mesh import TOOL, MeshFinding
from hsdns.rules.rule import LEVELS, SITE, Edit, Finding, Rule
from hsdns.wire import counted, printable


class Report(NamedTuple):
    """The content of a report: findings at or over the level, the number below it, silenced ones, and what was read.

    `mesh` are findings of istioctl, `texts` the contents of the files by name.
    """

    findings: list[Finding]
    below: int
    silenced: list[Finding]
    objects: int
    files: int
    unread: list[str]
    mesh: Sequence[MeshFinding] = ()
    texts: Mapping[str, bytes] = {}


FORMATS: Final = ("text", "json", "sarif", "junit", "github")


def formatted(report: Report, output: str, *, colour: bool = False) -> list[str]:
    """The lines of the report in a format, with names that control nothing; text may have colours."""
    if output == "text":
        return _plain(report, colour=colour)
    writers = zip(FORMATS[1:], (_json, _sarif, _junit, _github), strict=True)
    return dict(writers)[output](report)


def _rows(report: Report) -> list[Finding | MeshFinding]:
    """The findings to show."""
    return [*report.findings, *report.mesh]


# JSON


def _json(report: Report) -> list[str]:
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


# Text: the findings of each object, with the lines that they are about; then a line with counts.


_COLOURS: Final = {"error": RED, "warning": YELLOW, "note": CYAN}
_WIDTH: Final = 100  # of the part of a long line that is shown
_BEFORE: Final = 40  # of it before the place
_MARKED: Final = re.compile(r"[^\s,;{}\[\]]*[^\s,;:{}\[\]]|.")
_WORD: Final = re.compile(r"[\w.-]+")
_REPAIRED: Final = "[*]"


def _plain(report: Report, *, colour: bool) -> list[str]:
    """The report for a terminal, line by line."""
    painted = partial(colours.painted, is_on=colour)
    lines = list[str]()
    groups = defaultdict[tuple[str, str], list[Finding]](list)
    for each in report.findings:
        groups[each.at.file, each.remark.place].append(each)
    for (file, place), group in groups.items():
        lines += ["", painted(printable(place or file), BOLD)]
        for each in group:
            level, hue = painted(each.level, _COLOURS[each.level]), _COLOURS[each.level]
            excerpt = list(_excerpt(each, report.texts.get(file, b"")))
            field = "" if excerpt else each.remark.field  # which the line shows
            said = ": ".join(filter(None, [field, each.remark.sentence]))
            code = f"{each.rule.code} {_REPAIRED}" if each.remark.edit else each.rule.code
            if colour:
                code = f"\x1b]8;;{each.page}\x1b\\{code}\x1b]8;;\x1b\\"  # a link to its page
            end = f"{painted(code, BOLD)} {painted(printable(str(each.at)), DIM)}"
            lines.append(f"  {level}: {printable(said)} {end}")
            for gutter, text, mark in excerpt:
                lines.append(f"{painted(gutter, DIM)}{text}{painted(mark, hue)}")
    if report.mesh:
        lines += [
            "",
            f"{TOOL} finds:",
            *(printable(f"{each}: {each.page}") for each in report.mesh),
        ]
    del lines[:1]
    counts = {level: sum(each.level == level for each in report.findings) for level in LEVELS}
    found = ", ".join(counted(each, level) for level, each in counts.items() if each)
    is_unseen = report.unread and not report.objects
    where = f"{_some(report.objects, 'object')} of {_some(report.files, 'file')}"
    found = "nothing was checked" if is_unseen else f"{found or 'nothing found'} in {where}"
    more = []
    if report.below:
        more.append(f"{counted(report.below, 'finding')} below the --level")
    if report.mesh:
        more.append(f"{counted(len(report.mesh), 'finding')} of istioctl")
    if report.silenced:
        more.append(f"{len(report.silenced)} silenced")
    if report.unread:
        more.append(f"{len(report.unread)} not checked")
    if lines:
        lines.append("")
    lines.append(found + (f" ({', '.join(more)})" if more else ""))
    repaired = sum(each.remark.edit is not None for each in report.findings)
    if repaired:
        lines.append(f"{_REPAIRED} {repaired} can be repaired with --fix")
    return lines


def _excerpt(finding: Finding, content: bytes) -> Iterator[tuple[str, str, str]]:
    """The line of a finding, and one with marks below its place: what stands before the line, the line, the marks."""
    _, number, column = finding.at
    rows = content.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    if not 0 < number <= len(rows) or not rows[number - 1].strip():
        return
    line, edit = rows[number - 1].rstrip("\r"), finding.remark.edit
    if column == 1:
        column += len(line) - len(line.lstrip())
    found = _MARKED.match(line, column - 1)
    word = _WORD.match(line, column - 1)
    said = finding.remark.sentence
    if found is not None and word is not None and word[0] in said and found[0] not in said:
        found = word  # a part of a value, such as the host of a URL
    end = found.end() if found is not None else column
    if edit is not None and edit.start == finding.at and edit.end.line == number:
        end = edit.end.column - 1
    first = max(column - 1 - _BEFORE, 0) if len(line) > _WIDTH else 0
    before, shown = (
        printable(line[first:last].expandtabs(4)) for last in (column - 1, first + _WIDTH)
    )
    marked = printable(line[column - 1 : end].expandtabs(4))
    start, rest = "…" if first else "", "…" if len(line) > first + _WIDTH else ""
    yield f"{number:>6} | ", f"{start}{shown}{rest}", ""
    yield f"{'':>6} | ", " " * len(start + before), "^" * max(len(marked), 1)


def _some(count: int, noun: str) -> str:
    return counted(count, noun) if count else f"no {noun}s"


# Findings as commands of a GitHub workflow, which shows them at their lines.
#
# Source: GitHub, Workflow commands for GitHub Actions, with the escapes of @actions/core.


_WORDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def _github(report: Report) -> list[str]:
    """The report, a line for each finding."""
    lines = [
        annotation(_WORDS[each.level], each.at, each.label, f"{each.message} ({each.page})")
        for each in _rows(report)
    ]
    return lines + [annotation("warning", None, "", each) for each in report.unread]


def annotation(word: str, at: Position | None, title: str, message: str) -> str:
    """One command: `word` is error, warning or notice; without a position it has no title."""
    place = ""
    if at is not None:
        file, title = (_escaped(each, is_property=True) for each in (at.file, title))
        place = f" file={file},line={at.line},col={at.column},title={title}"
    return f"::{word}{place}::{_escaped(message)}"


def _escaped(text: str, *, is_property: bool = False) -> str:
    found = printable(text).replace("%", "%25")
    return found.replace(":", "%3A").replace(",", "%2C") if is_property else found


# Findings as JUnit's XML, which CI servers show as failed tests: a test case for each finding.


def _junit(report: Report) -> list[str]:
    """The report as one test suite, line by line; without findings it has one passing case."""
    found, unread = _rows(report), report.unread
    suite = Element(
        "testsuite",
        name="hsdns lint",
        tests=str(len(found) + len(unread) or 1),
        failures=str(len(found)),
        errors=str(len(unread)),
    )
    for each in found:
        name, classname = each.case
        case = SubElement(suite, "testcase", name=name, classname=classname)
        failure = SubElement(case, "failure", message=each.message, type=each.level)
        failure.text = f"{printable(str(each))}\n{printable(each.page)}"
    for sentence in unread:
        case = SubElement(suite, "testcase", name=sentence, classname="not checked")
        SubElement(case, "error", message=sentence)
    if not found and not unread:
        SubElement(suite, "testcase", name=f"{report.objects} objects", classname="hsdns lint")
    return document(suite)


def document(root: Element) -> list[str]:
    """The lines of a document, in whose attributes is nothing that XML 1.0 does not allow."""
    for element in root.iter():
        for name, value in element.items():
            element.set(name, printable(value))
    indent(root)
    return ['<?xml version="1.0" encoding="UTF-8"?>', *tostring(root, "unicode").split("\n")]


# Findings in SARIF 2.1.0, which editors and code hosts show at their lines.
#
# Source: OASIS, Static Analysis Results Interchange Format 2.1.0.


SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def _sarif(report: Report) -> list[str]:
    """The report as the log of one run, line by line, and of another run for the findings of another tool."""
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
    invocation = {"executionSuccessful": not report.unread, "toolExecutionNotifications": notes}
    runs: list[dict[str, Any]] = [
        {
            "tool": {"driver": driver},
            "columnKind": "unicodeCodePoints",
            "invocations": [invocation],
            "results": [_of_rule(each, order) for each in findings],
        }
    ]
    if report.mesh:
        pages = sorted({each.code: each.page for each in report.mesh}.items())
        helps = [{"id": code, "helpUri": page} for code, page in pages]
        driver = {"name": TOOL, "informationUri": MESH_SITE, "rules": helps}
        results = [_result(each, each.code, each.place) for each in report.mesh]
        runs.append({"tool": {"driver": driver}, "results": results})
    return lines_of({"$schema": SCHEMA, "version": "2.1.0", "runs": runs})


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


def _result(each: Finding | MeshFinding, code: str, place: str) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if each.at is not None:
        region = {"startLine": each.at.line}
        if isinstance(each, Finding):
            region["startColumn"] = each.at.column
        file = {"uri": _uri(each.at.file)}
        location["physicalLocation"] = {"artifactLocation": file, "region": region}
    if place:
        location["logicalLocations"] = [{"fullyQualifiedName": place}]
    return {
        "ruleId": code,
        "level": each.level,
        "message": {"text": each.message},
        "locations": [location] if location else [],
    }


def _of_rule(finding: Finding, order: list[str]) -> dict[str, Any]:
    remark, code = finding.remark, finding.rule.code
    place = f"{remark.place}: {remark.field}" if remark.place else ""
    found = {**_result(finding, code, place), "ruleIndex": order.index(code)}
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
