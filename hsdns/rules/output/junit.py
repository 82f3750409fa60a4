"""Findings as JUnit's XML, which CI servers show as failed tests: a test case for each finding.

Path: output/__init__.py -> here.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from hsdns.rules.mesh import TOOL
from hsdns.rules.output import Report
from hsdns.wire import printable


def write(report: Report) -> list[str]:
    """The report as one test suite, line by line; without findings it has one passing case."""
    found, unread = report.findings, report.unread
    suite = Element(
        "testsuite",
        name="hsdns lint",
        tests=str(len(found) + len(report.mesh) + len(unread) or 1),
        failures=str(len(found) + len(report.mesh)),
        errors=str(len(unread)),
    )
    for each in found:
        position = each.remark.position
        case = SubElement(
            suite,
            "testcase",
            name=f"{each.rule.code} {position.file}:{position.line}",
            classname=position.file,
        )
        failure = SubElement(case, "failure", message=each.message, type=each.level)
        failure.text = f"{printable(str(each))}\n{each.rule.page}"
    for message in report.mesh:
        case = SubElement(suite, "testcase", name=f"{message.code} {message.place}", classname=TOOL)
        failure = SubElement(case, "failure", message=message.message, type=message.level)
        failure.text = f"{printable(str(message))}\n{printable(message.page)}"
    for sentence in unread:
        case = SubElement(suite, "testcase", name=sentence, classname="not checked")
        SubElement(case, "error", message=sentence)
    if not found and not unread and not report.mesh:
        SubElement(suite, "testcase", name=f"{report.objects} objects", classname="hsdns lint")
    return document(suite)


def document(root: Element) -> list[str]:
    """The lines of a document, in whose attributes is nothing that XML 1.0 does not allow."""
    for element in root.iter():
        for name, value in element.items():
            element.set(name, printable(value))
    indent(root)
    return ['<?xml version="1.0" encoding="UTF-8"?>', *tostring(root, "unicode").split("\n")]
