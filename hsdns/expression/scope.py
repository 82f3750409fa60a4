"""What one evaluation knows while it runs, and how much it may still do.

Path: evaluate.py makes one for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hsdns.expression.fault import ExpressionError

MAX_STEPS: Final = 50_000  # elements looked at: some tens of milliseconds


class Scope:
    """Variables, functions and the elements that predicates are at."""

    __slots__ = ("_left", "_values", "elements", "lets")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._left = MAX_STEPS
        self.lets: dict[str, Any] = {}
        self.elements: list[dict[str, Any]] = []

    def lookup(self, name: str) -> Any:
        """The value of a name, one that `let` gave it first."""
        return self.lets[name] if name in self.lets else self._values[name]

    def step(self, count: int = 1) -> None:
        """Account for so many elements; raise ExpressionError where it becomes too much."""
        self._left -= count
        if self._left < 0:
            raise ExpressionError(f"the expression takes more than {MAX_STEPS} steps")


Evaluate = Callable[[Scope], Any]
