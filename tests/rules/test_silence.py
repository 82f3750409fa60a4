"""Silences in comments: where they stand, and what they are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import read_files
from hsdns.rules.rule import Edit
from hsdns.rules.silence import SilenceFile, SilencePattern, comments, read_silence_file, repaired
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


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
