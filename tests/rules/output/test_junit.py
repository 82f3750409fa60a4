"""Findings as JUnit's XML."""

from xml.etree import ElementTree

from hsdns.rules.output import Report
from hsdns.rules.output.junit import write


def test_a_finding_is_a_failure(report: Report) -> None:
    suite = ElementTree.fromstring("\n".join(write(report)))
    assert suite.attrib == {"name": "hsdns lint", "tests": "2", "failures": "1", "errors": "1"}
    failed, unread = suite
    assert failed.attrib == {"name": "HS131 ./a b.yaml:8", "classname": "./a b.yaml"}
    assert (
        failed[0].attrib["message"]
        == 'Service db: spec.externalName: "10.1.2.3" is <an> address, 100%'
    )
    assert failed[0].attrib["type"] == "error"
    assert unread[0].attrib == {"message": "b.yaml:1: not YAML"}


def test_without_findings_a_case_passes(empty: Report) -> None:
    (case,) = ElementTree.fromstring("\n".join(write(empty)))
    assert (case.attrib["name"], list(case)) == ("3 objects", [])
