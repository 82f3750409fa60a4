"""Findings in all formats."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from hsdns import __version__
from hsdns.corefile.tree import Position
from hsdns.rules.output import Report, formatted
from hsdns.rules.rule import Edit, Finding, Remark, rules

AT = Position("./a b.yaml", 8, 17)
EDIT = Edit(AT, AT._replace(column=25), "x")
SENTENCE = '"10.1.2.3" is <an> address, 100%'
FOUND = Finding(
    rules()["HS131"], "error", Remark(AT, "Service db", "spec.externalName", SENTENCE, "", EDIT)
)
SILENCED = Finding(
    rules()["HS205"], "note", Remark(AT._replace(line=9), "", "", "no ready"), "known"
)
REPORT = Report([FOUND], 2, [SILENCED], 3, 1, ["b.yaml:1: not YAML"])
EMPTY = Report([], 0, [], 3, 1, [])
PAGE = "https://hsdns.github.io/hsdns/rules/HS131.html"


def written(report: Report, output: str) -> str:
    return "\n".join(formatted(report, output))


@pytest.mark.parametrize(
    ("report", "output", "text"),
    [
        (
            REPORT,
            "text",
            f"./a b.yaml:8:17: error HS131 Service db: spec.externalName: {SENTENCE}\n\n"
            f"HS131 The target of an ExternalName Service is an IP address: {PAGE}\n\n"
            "1 error in 3 objects of 1 file (2 findings below the -level, 1 silenced, 1 not checked)",
        ),
        (EMPTY, "text", "nothing found in 3 objects of 1 file"),
        (
            REPORT,
            "github",
            "::error file=./a b.yaml,line=8,col=17,title=HS131 The target of an ExternalName Service is an IP address::"
            f'Service db: spec.externalName: "10.1.2.3" is <an> address, 100%25 ({PAGE})\n'
            "::warning::b.yaml:1: not YAML",
        ),
        (EMPTY, "github", ""),
    ],
)
def test_text(report: Report, output: str, text: str) -> None:
    assert written(report, output) == text


def test_json() -> None:
    value = json.loads(written(REPORT, "json"))
    (silenced,) = value.pop("silenced")
    assert (silenced["code"], silenced["reason"]) == ("HS205", "known")
    found = {
        "code": "HS131",
        "name": "address-as-external-name",
        "level": "error",
        "page": PAGE,
        "repaired": True,
    }
    found |= {"file": "./a b.yaml", "line": 8, "column": 17, "object": "Service db"}
    found |= {"field": "spec.externalName", "message": SENTENCE}
    counts = {"below": 2, "objects": 3, "files": 1}
    assert value == {
        "findings": [found],
        "istioctl": [],
        **counts,
        "unread": ["b.yaml:1: not YAML"],
    }


def test_sarif() -> None:
    log = json.loads(written(REPORT, "sarif"))
    assert (log["version"], log["$schema"]) == (
        "2.1.0",
        "https://json.schemastore.org/sarif-2.1.0.json",
    )
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("hsdns lint", __version__)
    first, second = driver["rules"]
    assert (first["id"], first["name"], second["id"]) == ("HS131", "AddressAsExternalName", "HS205")
    assert first["defaultConfiguration"] == {"level": "error", "enabled": True}
    assert first["properties"] == {"state": "stable"}
    assert "\n" not in first["fullDescription"]["text"]
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["message"] == {"text": "b.yaml:1: not YAML"}
    found, silenced = run["results"]
    assert (found["ruleId"], found["ruleIndex"], found["level"]) == ("HS131", 0, "error")
    (location,) = found["locations"]
    uri = {"artifactLocation": {"uri": "a%20b.yaml"}}
    assert location["physicalLocation"] == {**uri, "region": {"startLine": 8, "startColumn": 17}}
    assert location["logicalLocations"] == [{"fullyQualifiedName": "Service db: spec.externalName"}]
    region = {"startLine": 8, "startColumn": 17, "endLine": 8, "endColumn": 25}
    change = {**uri, "replacements": [{"deletedRegion": region, "insertedContent": {"text": "x"}}]}
    assert found["fixes"] == [{"artifactChanges": [change]}]
    assert silenced["suppressions"] == [{"kind": "inSource", "justification": "known"}]


def test_what_a_file_silences_is_suppressed_outside_in_sarif() -> None:
    report = REPORT._replace(silenced=[SILENCED._replace(is_outside=True)])
    _, silenced = json.loads(written(report, "sarif"))["runs"][0]["results"]
    assert silenced["suppressions"] == [{"kind": "external", "justification": "known"}]


def test_junit() -> None:
    suite = ElementTree.fromstring(written(REPORT, "junit"))
    assert suite.attrib == {"name": "hsdns lint", "tests": "2", "failures": "1", "errors": "1"}
    failed, unread = suite
    assert failed.attrib == {"name": "HS131 ./a b.yaml:8", "classname": "./a b.yaml"}
    assert failed[0].attrib == {
        "message": f"Service db: spec.externalName: {SENTENCE}",
        "type": "error",
    }
    assert unread[0].attrib == {"message": "b.yaml:1: not YAML"}
    (case,) = ElementTree.fromstring(written(EMPTY, "junit"))
    assert (case.attrib["name"], list(case)) == ("3 objects", [])
