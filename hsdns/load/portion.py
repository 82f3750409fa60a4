"""The portion of a plan that one of several generators carries out: -part 3/8.

Path: cli/load.py reads -part -> here -> sender_process.py, which takes times and questions through it.
Rule: query N of the plan belongs to generator N % count.  So the portions together are the plan: the same queries at
      the same times, for any number of generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from hsdns.load.errors import LoadError

T = TypeVar("T")
MOST: Final = 1000  # generators


class Portion(NamedTuple):
    """One of `parts` portions; `part` is less than `parts`, like the index of an Indexed Job."""

    part: int = 0
    parts: int = 1

    def of(self, found: Iterator[T]) -> Iterator[T]:
        """The items that belong to this portion."""
        return found if self.parts == 1 else islice(found, self.part, None, self.parts)

    def to_text(self) -> str:
        """The value of -part; "" for the whole."""
        return "" if self.parts == 1 else f"{self.part}/{self.parts}"


WHOLE: Final = Portion()


def read_portion(text: str) -> Portion:
    """Read -part, INDEX/COUNT; raise LoadError."""
    index, _, count = text.partition("/")
    if not all(each.isascii() and each.isdigit() and len(each) < 5 for each in (index, count)):
        raise LoadError(f'-part needs an index and a count such as 0/8, found "{text}"')
    if not 0 < int(count) <= MOST:
        raise LoadError(f'-part: "{count}" in "{text}" is no count from 1 to {MOST}')
    if int(index) >= int(count):
        raise LoadError(
            f'-part: "{index}" in "{text}" is no index from 0 to {int(count) - 1}; '
            f"the first of {int(count)} is 0/{int(count)}"
        )
    return Portion(int(index), int(count))
