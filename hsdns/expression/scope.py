"""State of one evaluation: variables, elements, and the remaining steps.

Path: evaluate.py makes one for each evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hsdns.expression.fault import ExpressionError

MAX_STEPS: Final = 50_000  # visited elements: some tens of milliseconds


class Scope:
    """Variables, functions and the current elements of predicates."""

    __slots__ = ("_left", "_values", "elements", "lets")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._left = MAX_STEPS
        self.lets: dict[str, Any] = {}
        self.elements: list[dict[str, Any]] = []

    def lookup(self, name: str) -> Any:
        """Return the value of a name; one defined by `let` takes precedence."""
        return self.lets[name] if name in self.lets else self._values[name]

    def step(self, count: int = 1) -> None:
        """Count visited elements; raise ExpressionError if there are too many."""
        self._left -= count
        if self._left < 0:
            raise ExpressionError(f"the expression takes more than {MAX_STEPS} steps")


Evaluate = Callable[[Scope], Any]
