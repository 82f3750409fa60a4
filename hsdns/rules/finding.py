"""A finding: a rule, the position, the object, the field, what is wrong and what to do; and how to repair it.

Path: checks/ yield Remarks -> judging.py makes Findings of them -> output/, repair.py.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.corefile.tree import Position
from hsdns.rules.rule import Rule


class Edit(NamedTuple):
    """A replacement of the text from `start` to before `end`; both are in the same file."""

    start: Position
    end: Position
    text: str


class Remark(NamedTuple):
    """The result of a check: `place` is an object such as `Service shop/db`, `field` a path in it, or both are empty.

    `level` is by default that of the rule.
    """

    position: Position
    place: str
    field: str
    sentence: str
    level: str = ""
    edit: Edit | None = None


class Finding(NamedTuple):
    """A remark with its rule; `silenced` is the reason why it is not shown.

    `is_outside` if the reason is in a file of silences, not next to the object.
    """

    rule: Rule
    level: str
    remark: Remark
    silenced: str = ""
    is_outside: bool = False

    @property
    def message(self) -> str:
        """The sentence, with its object and field."""
        parts = [self.remark.place, self.remark.field, self.remark.sentence]
        return ": ".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{self.remark.position}: {self.level} {self.rule.code} {self.message}"
