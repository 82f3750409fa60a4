"""The tables of the pages: they name all that there is, and nothing else."""

from __future__ import annotations

import re

import pytest

from hsdns.faults.words import ACTIONS, OPTIONS, SELECTORS, read_rule
from hsdns.recording import cli as replay
from hsdns.recording.cli import Record
from hsdns.recording.entry import NAMES
from hsdns.sources.replay import SETTINGS
from tests.cli.test_demo import BROKEN
from tests.docs.test_examples import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


@pytest.mark.parametrize(
    ("name", "title", "known"),
    [
        ("faults", "action", {*ACTIONS}),
        ("faults", "selector", {*SELECTORS}),
        ("faults", "option", {*OPTIONS}),
        ("contributing/recording", "entry", {*NAMES}),
        ("record", "argument", {*SETTINGS}),
        ("record", "command", {f"hsdns replay {each}" for each in replay.WORDS}),
        ("record", "flag", {f"--{each}" for each in Record.flags()} - {"--control", "--o", "--h", "--help"}),
    ],
)  # fmt: skip
def test_every_word_is_described(name: str, title: str, known: set[str]) -> None:
    table = page(name).partition(f"\n| {title} | ")[2].partition("\n\n")[0]
    first = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    codes = [code for cell in first for code in re.findall(r"`([^`]+)`", cell)]
    words = {re.match(r"hsdns replay \w+|\S+", each.partition("=")[0])[0] for each in codes}  # type: ignore[index] # each matches
    assert words - {"tcp", "dot", "doh"} == known


def test_rules_of_faults_in_the_text_are_rules() -> None:
    found = re.findall(r"`((?:not|type|client|share) [^`]*)`", page("faults"))
    examples = [each for each in found if not re.search(r"[A-Z]{3}[A-Z]*$|[A-Z]+/", each)]
    assert len(examples) > 2
    for each in examples:
        read_rule(["drop", *each.split()])


def test_each_example_of_the_demo_is_judged() -> None:
    text = (ROOT / "tests" / "docs" / "troubleshooting.md").read_text()
    assert set(re.findall(r"^[✗!·] .* (HS\d+)$", text, re.MULTILINE)) == set(BROKEN)
