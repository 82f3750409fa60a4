"""The limits of a report as test cases, in JUnit's XML format, which CI systems show.

Path: report.py -> here -> cli/export.py writes it (-junit).
Rule: a suite for each server; a case for each limit, and one for whether the run was complete.  A limit that is met is
      a failure; one that could not be evaluated is an error.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET

from hsdns.load.limits import KNEE
from hsdns.load.output.words import arrival, limited, rates
from hsdns.load.report import Report
from hsdns.load.results import LimitReport, ServerReport
from hsdns.rules.output import document

WHOLE: Final = "the run is whole"


def junit(report: Report) -> str:
    """The document."""
    root = ET.Element("testsuites", {"name": "hsdns load"})
    for server in report.servers:
        _suite(root, report, server)
    return "\n".join(document(root)) + "\n"


def _suite(root: ET.Element, report: Report, server: ServerReport) -> None:
    met = [limit.met for limit in server.limits]
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": f"hsdns load {server.name}",
            "tests": str(1 + len(met)),
            "failures": str(met.count(True)),
            "errors": str(met.count(None) + bool(server.ended)),
            "skipped": "0",
            "time": f"{server.seconds:g}",
            "timestamp": report.started,
        },
    )
    plan, properties = report.plan, ET.SubElement(suite, "properties")
    for name, value in (
        ("target", server.target),
        ("transport", plan.transport),
        ("rate", f"{rates(plan.stages)}, {arrival(plan)}"),
        ("seed", str(plan.seed)),
        ("questions", plan.what),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": value})
    whole = _case(suite, server, WHOLE)
    if server.ended:
        told = f"{server.ended} after {server.seconds:g} s"
        ET.SubElement(whole, "error", {"message": told, "type": "ended"})
    for limit in server.limits:
        case = _case(suite, server, limit.limit)
        if limit.met:
            message = f"{limit.limit}: {limited(limit)}"
            ET.SubElement(case, "failure", {"message": message, "type": "limit"})
        elif limit.met is None:
            message = f"{limit.limit}: {_why_unknown(report, server, limit)}"
            ET.SubElement(case, "error", {"message": message, "type": "unknown"})


def _why_unknown(report: Report, server: ServerReport, limit: LimitReport) -> str:
    if report.knee is not None and limit.limit.startswith(KNEE):
        return report.knee.sentence
    return server.refused or "nothing was measured that it is about"


def _case(suite: ET.Element, server: ServerReport, name: str) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        {"classname": f"hsdns load.{server.name}", "name": name, "time": f"{server.seconds:g}"},
    )
