"""Tables of tests in text files: rows over several lines, and lines of two columns.

A row is `== NAME`, the lines that are given, and what is expected, each part after `=> `; what stands before the first
row is a comment.  A line of two columns is `GIVEN => EXPECTED`, in the section that `== NAME` begins.
A table without names has lines, between which empty ones and comments (`# `) are free, or paragraphs, of which the first
is a comment.
A line of values is cells between ` | `, each in JSON, or a text as it is; ` ## ` and a name of the line may follow.
`<U+000D>` is a character that cannot be seen, and `<a x 64>` stands for 64 of them.
Path: tests only.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet

_SPECIAL = re.compile(r"<U\+([0-9A-F]{4,6})>|<([^<>]+) x ([0-9]+)>")


class Row(NamedTuple):
    """A row of a table."""

    given: str
    expected: list[str]


def _plain(text: str) -> str:
    return _SPECIAL.sub(
        lambda found: chr(int(found[1], 16)) if found[1] else found[2] * int(found[3]), text
    )


def _parts(path: Path) -> list[tuple[str, str]]:
    _, *parts = re.split(r"(?m)^== (.*)\n", path.read_text())
    return list(zip(parts[::2], parts[1::2], strict=True))


def rows(path: Path) -> list[ParameterSet]:
    """The rows of a file, each a Row, as the parameters of a test."""
    found = []
    for name, text in _parts(path):
        given, *expected = f"\n{_plain(text.rstrip(chr(10)))}".split("\n=> ")
        found.append(pytest.param(Row(given[1:], expected), id=name))
    return found


def lines(path: Path) -> list[str]:
    """The lines of a file that are neither empty nor a comment."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def paragraphs(path: Path) -> list[str]:
    """The paragraphs of a file but the first, which says what they are."""
    return path.read_text().rstrip("\n").split("\n\n")[1:]


def sections(path: Path) -> list[str]:
    """The names of a file's sections."""
    return [name for name, _ in _parts(path)]


def section(path: Path, name: str) -> str:
    """The lines of a section, as they are."""
    return next(text for found, text in _parts(path) if found == name).rstrip("\n")


def columns(path: Path, name: str) -> list[ParameterSet]:
    """The lines of a section, each a pair of texts, as the parameters of a test."""
    pairs = [f" {line}".partition(" => ")[::2] for line in section(path, name).splitlines()]
    return [
        pytest.param(_plain(given[1:]), _plain(expected), id=given[1:]) for given, expected in pairs
    ]


def values(path: Path, name: str) -> list[ParameterSet]:
    """The lines of a section, each with a value in a cell, as the parameters of a test."""
    listed = [line.partition(" ## ") for line in section(path, name).splitlines()]
    return [pytest.param(*map(_value, cells.split(" | ")), id=named or cells) for cells, _, named in listed]  # fmt: skip


def _value(cell: str) -> Any:
    try:
        return json.loads(cell)
    except ValueError:
        return cell
