"""Silences in comments: where they stand, and what they are about."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import read_files
from hsdns.rules.rule import Edit
from hsdns.rules.silence import SilenceFile, SilencePattern, comments, read_silence_file, repaired


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1  # hsdns: ignore HS131 it is so", [(1, 7, "HS131", "it is so")]),
        ("a: 1 #hsdns:ignore HS131", [(1, 6, "HS131", "")]),
        ("# hsdns: ignore HS131 why\n# more\n\na: 1", [(4, 1, "HS131", "why")]),
        ("---\n  # hsdns: ignore HS131 why\n---\na: 1", [(4, 3, "HS131", "why")]),
        ("a: 1\n# hsdns: ignore HS131 why", [(2, 1, "HS131", "why")]),
        ("# hsdns: ignore", [(1, 1, "", "")]),
        ("# hsdns: ignored", []),
        ("a: 1", []),
    ],
)
def test_comments(text: str, found: list[tuple[int, int, str, str]]) -> None:
    silences = comments(text.encode(), "a.yaml")
    assert [(each.line, each.at.column, each.code, each.reason) for each in silences] == found


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a: 'b", "s.yaml:1:6: not YAML: found unexpected end of stream; correct the file"),
        (b"a: \xff", "s.yaml: not YAML (ReaderError); correct the file"),
        (b"- a", 's.yaml:1:1: this must be a mapping with the key "silences"'),
        (b"silence: []", 's.yaml:1:1: unknown key "silence"; did you mean "silences"?'),
        (b"silences: {}", 's.yaml:1:11: "silences" must be a list of entries'),
        (b"silences: [HS131]", "s.yaml:1:12: this must be an entry with rule, object, path, reason"),
        (b"silences: [{code: x}]", 's.yaml:1:13: unknown key "code"; there is rule, object, path, reason'),
        (b"silences: [{rule: [x]}]", 's.yaml:1:19: "rule" must be a text'),
        (b"silences: [{path: x}]", "s.yaml:1:12: the entry has no rule; write the code of one"),
        (
            b"silences: [{rule: HS131, reason: x}]",
            "s.yaml:1:12: the entry has neither object nor path; write a pattern, such as object: Service shop/*",
        ),
    ],
)  # fmt: skip
def test_bad_files(text: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"^s\.yaml") as caught:
        read_silence_file("s.yaml", text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("pattern", "place", "file", "matches"),
    [
        (entry("Service shop/db"), "Service shop/db", "a.yaml", True),
        (entry("Service */d?"), "Service shop/db", "a.yaml", True),
        (entry("Service shop"), "Service shop/db", "a.yaml", False),
        (entry("service *"), "Service shop/db", "a.yaml", False),
        (entry("*"), "", "Corefile", True),
        (entry(path="vendor/*"), "Service db", "vendor/x/a.yaml", True),
        (entry(path="vendor/*"), "Service db", "./vendor/a.yaml", True),
        (entry(path="vendor/*"), "Service db", "/repo/vendor/a.yaml", True),
        (entry(path="vendor/*"), "Service db", "old-vendor/a.yaml", False),
        (entry("Service db", "a.yaml"), "Service db", "b.yaml", False),
        (entry("Service db", "a.yaml"), "Service pg", "a.yaml", False),
    ],
)
def test_matches(pattern: SilencePattern, place: str, file: str, *, matches: bool) -> None:
    assert pattern.matches(place, file) is matches


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
