"""Rules as their pages say them, and how one is found by a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import read_files
from hsdns.rules.rule import RETIRED, Edit, find_rule, rules
from hsdns.rules.silence import SilenceFile, SilencePattern, comments, read_silence_file, repaired
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")


def test_a_code_is_given_once() -> None:
    """codes.txt has all codes that ever were: a rule is added at its end, and a code that goes is retired."""
    lines = (Path(__file__).parent / "codes.txt").read_text().split("\n")
    given = dict(each.split(" ") for each in lines if each)
    assert len(given) == len(lines) - 1
    assert {code: each.name for code, each in rules().items()} == {
        code: name for code, name in given.items() if code not in RETIRED
    }
    assert RETIRED.keys() <= given.keys()


def test_a_retired_rule_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RETIRED, "HS900", "A thing is wrong; HS901 finds it")
    with pytest.raises(ValueError, match="no longer exists") as caught:
        find_rule("hs900")
    assert str(caught.value) == "rule HS900 no longer exists: A thing is wrong; HS901 finds it"


@pytest.mark.parametrize(("word", "message"), values(TABLES, "no rule is found"))
def test_no_rule_is_found(word: str, message: str) -> None:
    with pytest.raises(ValueError, match="there is no rule") as caught:
        find_rule(word)
    assert str(caught.value) == message


# The table of checks.


# Silences in comments: where they stand, and what they are about.


@pytest.mark.parametrize(("text", "found"), columns(TABLES, "comments"))
def test_comments(text: str, found: str) -> None:
    """The line that it is about, its column, the rule and the reason."""
    rows = (
        f"{each.line}:{each.at.column} {each.code} {each.reason}".rstrip()
        for each in comments(text.encode(), "a.yaml")
    )
    assert ", ".join(rows) == found


# The file of silences: its entries, what they are about, and when they are due.


AT = Position("s.yaml", 1, 1)
SERVICE = b"apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop}\n"


def entry(object_: str = "", path: str = "", reason: str = "why") -> SilencePattern:
    return SilencePattern(AT, "HS131", object_, path, reason)


def test_entries() -> None:
    text = b"""# why
silences:
  - rule: HS131
    object: Service a/*
    reason: because
  - {rule: HS142, path: ./vendor/*, object: ~, reason: }
"""
    assert read_silence_file("s.yaml", text) == [
        SilencePattern(Position("s.yaml", 3, 5), "HS131", "Service a/*", "", "because"),
        SilencePattern(Position("s.yaml", 6, 5), "HS142", "", "vendor/*", ""),
    ]


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"~\n", b"silences:\n", b"silences: []\n"])
def test_no_entries(text: bytes) -> None:
    assert read_silence_file("s.yaml", text) == []


@pytest.mark.parametrize(("text", "sentence"), columns(TABLES, "bad files of silences"))
def test_bad_files(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^s\.yaml") as caught:
        read_silence_file("s.yaml", text.encode("latin-1"))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("given", "matches"), columns(TABLES, "patterns of silences"))
def test_matches(given: str, matches: str) -> None:
    """Object and path of an entry, and an object and its file."""
    object_, path, place, file = (each.strip() for each in given.split(" | "))
    assert entry(object_, path).matches(place, file) is (matches == "yes")


@pytest.mark.parametrize(
    ("filed", "pattern", "is_due"),
    [
        (SilenceFile(), entry("Service shop/*"), True),
        (SilenceFile(), entry("Service lab/*"), False),
        (SilenceFile(), entry(path="a.yaml"), True),
        (SilenceFile(), entry("*", "Corefile"), True),
        (SilenceFile(), entry("*", "c.yaml"), False),
        (SilenceFile(is_everything=True), entry("Service lab/*"), True),
        (SilenceFile(unchecked=frozenset({"HS131"})), entry("Service shop/*"), False),
    ],
)
def test_is_due(filed: SilenceFile, pattern: SilencePattern, *, is_due: bool) -> None:
    objects = read_files([("a.yaml", SERVICE), ("Corefile", b".:53 {\n}\n")]).objects
    assert filed.is_due(pattern, objects) is is_due


# Edits of a text.


TEXT = "one\ntwo three\n"


def edit(line: int, column: int, to_line: int, to_column: int, text: str) -> Edit:
    return Edit(Position("a", line, column), Position("a", to_line, to_column), text)


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ([], TEXT),
        ([edit(2, 5, 2, 10, "3")], "one\ntwo 3\n"),
        ([edit(1, 1, 2, 1, "")], "two three\n"),
        ([edit(2, 5, 2, 10, "3"), edit(2, 1, 2, 4, "2")], "one\n2 3\n"),
        ([edit(2, 1, 2, 10, "x"), edit(2, 5, 2, 10, "3")], "one\nx\n"),
        ([edit(2, 1, 3, 1, "")] * 2, "one\n"),
        ([edit(2, 4, 9, 9, "")], "one\ntwo"),
    ],
)
def test_edits(edits: list[Edit], text: str) -> None:
    assert repaired(TEXT, edits) == text
