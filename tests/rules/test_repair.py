"""Edits of a text."""

from __future__ import annotations

import pytest

from hsdns.corefile.tree import Position
from hsdns.rules.rule import Edit
from hsdns.rules.silence import repaired

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


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\r", "\x85", "\u2028", "\u2029"])
def test_lines_end_where_they_do_in_yaml(break_: str) -> None:
    assert repaired(f"one{break_}two three", [edit(2, 5, 2, 10, "3")]) == f"one{break_}two 3"
