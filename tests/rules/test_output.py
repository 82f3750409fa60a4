"""Findings in all formats, held against whole outputs in output/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsdns import __version__
from hsdns.corefile.tree import Position
from hsdns.rules.mesh import as_findings
from hsdns.rules.output import FORMATS, Report, formatted
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
OUTSIDE = SILENCED._replace(is_outside=True)
MESSAGE = {
    "code": "IST0101",
    "level": "Error",
    "message": "a",
    "origin": "Pod a.b",
    "reference": "a.yaml:7",
}
REPORT = Report(
    [FOUND], 2, [SILENCED, OUTSIDE], 3, 1, ["b.yaml:1: not YAML"], as_findings([MESSAGE]),
    {AT.file: b"\n" * 7 + b"  externalName: 10.1.2.3 # \x1b\n"},
)  # fmt: skip
EMPTY = Report([], 0, [], 3, 1, [])


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(("name", "report"), [("report", REPORT), ("empty", EMPTY)])
def test_formats(output: str, name: str, report: Report) -> None:
    text = "\n".join([*formatted(report, output), ""])
    if output == "sarif":
        log = json.loads(text)
        for each in log["runs"][0]["tool"]["driver"]["rules"]:
            rule = rules()[each["id"]]
            assert each.pop("help") == {"text": rule.section("Fix"), "markdown": rule.text}
            assert each.pop("fullDescription") == {"text": " ".join(rule.what.split())}
        text = json.dumps(log, indent=2, ensure_ascii=False) + "\n"
    file = Path(__file__).parent / "output" / f"{name}.{output}"
    assert text == file.read_text().replace("VERSION", __version__)


def test_colours_of_a_terminal_and_a_link_to_the_page() -> None:
    heading, found, line, mark, *_ = formatted(REPORT, "text", colour=True)
    assert heading == "\x1b[1mService db\x1b[0m"
    assert found.startswith("  \x1b[31merror\x1b[0m: ")
    assert f"\x1b]8;;{FOUND.page}\x1b\\HS131 [*]\x1b]8;;\x1b\\" in found
    assert line.endswith("  externalName: 10.1.2.3 # \\u001b")
    assert mark.endswith(f"{' ' * 16}\x1b[31m^^^^^^^^\x1b[0m")
