"""Applies the edits of findings to the text of a file.

Path: cli/lint.py, for -fix -> here.
Rule: edits that overlap are applied one after the other, in as many rounds; each round checks again.
"""

from __future__ import annotations

from collections.abc import Iterable

from hsdns.rules.finding import Edit


def repaired(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits that do not overlap an earlier one."""
    offsets = [0]
    for line in text.split("\n"):
        offsets.append(offsets[-1] + len(line) + 1)
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
