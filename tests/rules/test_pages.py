"""Every rule does what its page says: its examples are found as they stand there, and repaired ones are quiet."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import pytest

from hsdns.rules.judging import WITHOUT_EFFECT, WITHOUT_REASON, judge, read_files
from hsdns.rules.objects import CHECKS
from hsdns.rules.rule import CODE, RETIRED, Edit, Rule, rules
from hsdns.rules.silence import repaired
from tests.rules.examples import Example, examples

NAMES = {"yaml": "example.yaml", "corefile": "Corefile"}
SECTIONS = ["Why", "See it by hand", "Fix", "Sources", "Examples"]


class Case(NamedTuple):
    rule: Rule
    number: int
    example: Example

    def __str__(self) -> str:
        return f"{self.rule.code}-{self.number}"


RULES = list(rules().values())
CASES = [
    Case(rule, number, each) for rule in RULES for number, each in enumerate(examples(rule), 1)
]


def found_in(case: Case) -> str:
    """The findings of all rules, one line each; of new rules in the examples of new rules only."""
    language, content, _ = case.example
    read = read_files([(NAMES[language], content.encode())])
    assert read.unread == []
    assert read.left_out == []
    return "".join(
        f"{each}\n"
        for each in judge(read.objects, read.silences, preview=case.rule.is_preview).findings
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_example(case: Case) -> None:
    assert found_in(case) == case.example.findings


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule: Rule) -> None:
    assert re.findall(r"^## (.+)$", rule.text, re.MULTILINE) == SECTIONS
    assert all(rule.section(title) for title in SECTIONS)
    assert "```shell" in rule.section("See it by hand")
    assert not rule.title.endswith(".")
    assert rule.code not in RETIRED
    first, *rest = examples(rule)
    assert rule.code in first.findings
    assert any(not each.findings for each in rest), "no example is repaired"
    prose = re.sub(r"```.*?```", "", rule.text, flags=re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 125] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_levels_of_examples(rule: Rule) -> None:
    """The level of the page is that of a finding, or its sections name the other one."""
    levels = set(
        re.findall(rf": (\w+) {rule.code} ", "".join(each.findings for each in examples(rule)))
    )
    assert rule.level in levels or rule.level in rule.section("Examples") + rule.what
    assert all(
        level == rule.level or f"{'an' if level == 'error' else 'a'} {level}" in rule.what
        for level in levels
    )


def test_every_rule_has_a_check_and_every_check_a_rule() -> None:
    assert set(CHECKS) | {WITHOUT_EFFECT, WITHOUT_REASON} == set(rules())
    assert all(CODE.fullmatch(each) for each in rules())


def edits_of(case: Case) -> list[Edit]:
    read = read_files([(NAMES[case.example.language], case.example.content.encode())])
    found = judge(read.objects, read.silences, preview=case.rule.is_preview).findings
    return [each.remark.edit for each in found if each.remark.edit is not None]


FIXES = [
    (case, following)
    for case, following in pairwise(CASES)
    if case.rule is following.rule
    and case.rule.is_repaired
    and case.example.findings
    and not following.example.findings
    and edits_of(case)
]


@pytest.mark.parametrize(("case", "following"), FIXES, ids=str)
def test_fix_makes_its_rule_quiet_and_trips_no_other(case: Case, following: Case) -> None:
    text = repaired(case.example.content, edits_of(case))
    assert text == following.example.content
    assert found_in(case._replace(example=case.example._replace(content=text))) == ""


def test_rules_that_repair_say_so() -> None:
    repairing = {case.rule.code for case in CASES if edits_of(case)}
    assert {rule.code for rule in RULES if rule.is_repaired} == repairing
    assert {case.rule.code for case, _ in FIXES} == repairing
