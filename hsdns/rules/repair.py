"""Applies the edits of findings to the text of a file.

Path: cli/lint.py, for -fix -> here.
Rule: overlapping edits are applied in separate rounds, each with a new check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hsdns.rules.finding import Edit

BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # line breaks of YAML 1.1


def repaired(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits that do not overlap an earlier one."""
    offsets = [0, *(each.end() for each in BREAK.finditer(text)), len(text) + 1]
    placed = sorted(
        {(_offset(each.start, offsets), _offset(each.end, offsets), each.text) for each in edits}
    )
    parts, at = [], 0
    for start, end, new in placed:
        if start >= at:
            parts += [text[at:start], new]
            at = end
    return "".join([*parts, text[at:]])


def _offset(position: tuple[str, int, int], offsets: list[int]) -> int:
    _, line, column = position
    return min(offsets[min(line, len(offsets)) - 1] + column - 1, offsets[-1] - 1)
