"""Silences in comments: where they stand, and what they are about."""

from __future__ import annotations

import pytest

from hsdns.rules.silence import comments


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
