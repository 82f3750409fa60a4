from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from hsdns.load.output.junit import junit
from hsdns.load.output.markdown import markdown
from hsdns.load.report import KneeReport, LimitReport
from tests.load.test_report import report, results


def test_limits_are_test_cases() -> None:
    found = report(results(lost=2, late=5), "stale>0,loss>0.5%,p50>1s", "interrupted", b=results())
    text = junit(found)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="hsdns load">')
    suite, other = ET.fromstring(text)
    assert {name: suite.attrib[name] for name in ("tests", "failures", "errors", "time")} == {
        "tests": "4", "failures": "1", "errors": "2", "time": "2",
    }  # fmt: skip
    cases = [
        (case.attrib["name"], [(each.tag, each.attrib["type"], each.attrib["message"]) for each in case])
        for case in suite.iter("testcase")
    ]  # fmt: skip
    assert cases[:3] == [
        ("the run is whole", [("error", "ended", "interrupted after 2 s")]),
        ("stale>0", []),
        ("loss>0.5%", [("failure", "limit", "loss>0.5%: 2 (1.000%)")]),
    ]
    name, ((tag, kind, message),) = cases[3]
    assert (name, tag, kind) == ("p50>1s", "error", "unknown")
    assert message.startswith("p50>1s: the generator was the limit: it was late by")
    assert [case.attrib["classname"] for case in other.iter("testcase")] == ["hsdns load.b"] * 4
    properties = {each.attrib["name"]: each.attrib["value"] for each in suite.iter("property")}
    assert properties["rate"] == "100/s for 2 s, even"
    assert properties["target"] == found.servers[0].target


def test_a_limit_on_a_knee_that_was_not_found() -> None:
    found = report(results(late=5))
    limits = [LimitReport("knee<5000", None), LimitReport("p50>1s", None)]
    server = msgspec.structs.replace(found.servers[0], limits=limits)
    knee = KneeReport(False, 2000, None, "the knee is above the ceiling", [], [])
    found = msgspec.structs.replace(found, servers=[server], knee=knee)
    errors = [each.attrib["message"] for each in ET.fromstring(junit(found)).iter("error")]
    assert errors[0] == "knee<5000: the knee is above the ceiling"
    assert errors[1].startswith("p50>1s: the generator was the limit: ")


def test_a_run_without_limits_has_one_case() -> None:
    (suite,) = ET.fromstring(junit(report(results())))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == (
        "1", "0", "0",
    )  # fmt: skip


def test_names_are_only_text() -> None:
    whole = report(results())
    plan = msgspec.structs.replace(whole.plan, what='"<b>&')
    text = junit(msgspec.structs.replace(whole, plan=plan))
    values = {each.attrib["value"] for each in ET.fromstring(text).iter("property")}
    assert '"<b>&' in values


SUMMARY = """\
### Load on 127.0.0.1 port 53

100/s for 2 s, even, over UDP: 2 questions

**Not whole:** interrupted after 2.0 s

| limit |  | measured | server |
| --- | --- | --- | --- |
| stale\\>0 | FAILED | 10 \\(5.000%\\) | 127.0.0.1 port 53 |
| p50\\>1s | held | 1.00 ms | 127.0.0.1 port 53 |

|  | 127.0.0.1 port 53 |
| --- | --- |
| not whole | interrupted |
| answered | 198 |
| lost | 2 \\(1.000%\\) |
"""


def test_summary() -> None:
    found = markdown(report(results(lost=2, stale=True), "stale>0,p50>1s", "interrupted"))
    assert found[: len(SUMMARY)] == SUMMARY


def test_several_servers_are_columns() -> None:
    found = markdown(report(results(), "stale>0", "", frozen=results(stale=True)))
    assert "| stale\\>0 | held | 0 | 127.0.0.1 port 53 |\n" in found
    assert "| stale\\>0 | FAILED | 10 \\(5.000%\\) | frozen |\n" in found
    assert "|  | 127.0.0.1 port 53 | frozen |\n| --- | --- | --- |\n" in found


def test_what_was_left_out() -> None:
    found = markdown(report(results(late=5), "p50>1s"))
    assert "**Left out:** the generator was the limit" in found
    assert "| p50\\>1s | unknown | could not be told |" in found


def test_names_are_only_text_markdown() -> None:
    whole = report(results())
    plan = msgspec.structs.replace(whole.plan, what="<script> | `x` [a](b)\n# c")
    found = markdown(msgspec.structs.replace(whole, plan=plan))
    assert "\\<script\\> \\| \\`x\\` \\[a\\]\\(b\\)\\\\n\\# c" in found
