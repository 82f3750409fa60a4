"""A report with one of each, for all formats."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.finding import Edit, Finding, Remark
from hsdns.rules.output import Report
from hsdns.rules.rule import rules

AT = Position("./a b.yaml", 8, 17)
END = AT._replace(column=25)


@pytest.fixture
def report() -> Report:
    remark = Remark(
        AT,
        "Service db",
        "spec.externalName",
        '"10.1.2.3" is <an> address, 100%',
        "",
        Edit(AT, END, "x"),
    )
    found = Finding(rules()["HS131"], "error", remark)
    note = Finding(
        rules()["HS205"], "note", Remark(AT._replace(line=9), "", "", "no ready"), "known"
    )
    return Report([found], 2, [note], 3, 1, ["b.yaml:1: not YAML"])


@pytest.fixture
def empty() -> Report:
    return Report([], 0, [], 3, 1, [])
