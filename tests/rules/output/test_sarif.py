"""Findings in SARIF."""

import json

from hsdns import __version__
from hsdns.rules.output import Report
from hsdns.rules.output.sarif import write


def test_log(report: Report) -> None:
    log = json.loads("\n".join(write(report)))
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


def test_results(report: Report) -> None:
    found, silenced = json.loads("\n".join(write(report)))["runs"][0]["results"]
    assert (found["ruleId"], found["ruleIndex"], found["level"]) == ("HS131", 0, "error")
    (location,) = found["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b.yaml"},
        "region": {"startLine": 8, "startColumn": 17},
    }
    assert location["logicalLocations"] == [{"fullyQualifiedName": "Service db: spec.externalName"}]
    (fix,) = found["fixes"]
    (change,) = fix["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 8, "startColumn": 17, "endLine": 8, "endColumn": 25},
            "insertedContent": {"text": "x"},
        }
    ]
    assert silenced["suppressions"] == [{"kind": "inSource", "justification": "known"}]


def test_what_a_file_silences_is_suppressed_outside(report: Report) -> None:
    outside = [each._replace(is_outside=True) for each in report.silenced]
    _, silenced = json.loads("\n".join(write(report._replace(silenced=outside))))["runs"][0][
        "results"
    ]
    assert silenced["suppressions"] == [{"kind": "external", "justification": "known"}]


def test_nothing(empty: Report) -> None:
    (run,) = json.loads("\n".join(write(empty)))["runs"]
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
