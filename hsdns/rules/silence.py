"""Silences: findings that a person has accepted, and the reasons.

Path: reading.py -> here -> judging.py.
Rule 1: `# hsdns: ignore HS104 REASON` at the end of a line applies to that line; on a separate line to the next one, or
        to the whole object that begins there.
Rule 2: the annotation `hsdns.io/ignore-HS104: REASON` applies to its object.
Rule 3: without a reason nothing is silenced.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from hsdns.corefile.tree import Position
from hsdns.rules.repair import BREAK

ANNOTATION: Final = "hsdns.io/ignore-"
_COMMENT: Final = re.compile(r"(.*?)(#\s*hsdns:\s*ignore\b[ \t]*(\S*)[ \t]*(.*?))\s*")


class Silence(NamedTuple):
    """A comment or an annotation: `line` is the line that it applies to, `place` the object if it is an annotation.

    `at` is the position of its first character, `start` and `end` delimit the text to remove.
    """

    at: Position
    start: Position
    end: Position
    line: int
    place: str
    code: str
    reason: str


def comments(content: bytes, file: str) -> list[Silence]:
    """The silences in the comments of a file."""
    if b"hsdns:" not in content:
        return []
    found = []
    lines = BREAK.split(content.decode("utf-8", "replace"))
    for number, text in enumerate(lines, 1):
        match = _COMMENT.fullmatch(text)
        if match is None:
            continue
        before, comment, code, reason = match.groups()
        at = start = Position(file, number, len(before) + 1)
        end = Position(file, number, len(before) + len(comment) + 1)
        about = number
        if not before.strip():
            about = _next_line(lines, number)
            start, end = Position(file, number, 1), Position(file, number + 1, 1)
        else:
            start = start._replace(column=len(before.rstrip()) + 1)
        found.append(Silence(at, start, end, about, "", code, reason))
    return found


def _next_line(lines: list[str], number: int) -> int:
    for at in range(number, len(lines)):
        text = lines[at].strip()
        if text and not text.startswith("#") and text != "---":
            return at + 1
    return number
