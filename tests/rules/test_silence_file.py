"""The file of silences: its entries, what they are about, and when they are due."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.judging import read_files
from hsdns.rules.silence import SilenceFile, SilencePattern, read_silence_file

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
