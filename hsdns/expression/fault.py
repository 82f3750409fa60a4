"""What is wrong with an expression.

Path: raised by every step of the package.
"""

from __future__ import annotations


class ExpressionError(Exception):
    """A sentence, and the place in the text that it is about, counted from 0; -1 where there is none."""

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
