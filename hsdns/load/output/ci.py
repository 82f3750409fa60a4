"""The report of a run for CI systems: its limits as test cases, and a summary of the step of GitHub Actions.

Path: report.py -> here -> cli/reports.py writes them.

Test cases in JUnit's XML format (-junit):
Rule: a suite for each server; a case for each limit, and one for whether the run was complete.  A limit that is met is
      a failure; one that could not be evaluated is an error.

Markdown, which is appended to the file that GITHUB_STEP_SUMMARY names:
Rule: names and sentences are plain text: Markdown syntax in them is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from hsdns.load.limits import KNEE
from hsdns.load.output.words import arrival, comparison, limited, rates, shown
from hsdns.load.report import Report
from hsdns.load.results import LimitReport, ServerReport
from hsdns.rules.output import document
from hsdns.wire import printable

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
    return server.withheld or "nothing was measured that it is about"


def _case(suite: ET.Element, server: ServerReport, name: str) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        {"classname": f"hsdns load.{server.name}", "name": name, "time": f"{server.seconds:g}"},
    )


_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$@-])")
_MET: Final = {True: "FAILED", False: "held", None: "unknown"}


def markdown(report: Report) -> str:
    """The summary."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    plan, servers = report.plan, report.servers
    yield f"### Load on {_text(', '.join(server.target for server in servers))}"
    yield ""
    yield _text(f"{rates(plan.stages)}, {arrival(plan)}, over {plan.transport}: {plan.what}")
    for server in servers:
        of = f"{server.name}: " if len(servers) > 1 else ""
        for word, told in (
            ("Not whole", server.ended and f"{server.ended} after {server.seconds:.1f} s"),
            ("Withheld", server.withheld),
            *(("Note", note) for note in server.notes),
        ):
            if told:
                yield ""
                yield f"**{word}:** {_text(of + told)}"
    limits = [
        (limit.limit, _MET[limit.met], limited(limit), server.name)
        for server in servers
        for limit in server.limits
    ]
    if limits:
        yield ""
        yield from _table(("limit", "", "measured", "server"), limits)
    yield ""
    names = [server.name for server in servers]
    yield from _table(("", *names), [(label, *cells) for label, cells in comparison(shown(report))])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield f"|{' --- |' * len(head)}"
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(words: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable(words))
