"""Error of an expression.

Path: raised by every step of the package.
"""

from __future__ import annotations


class ExpressionError(Exception):
    """An error message, and its offset in the text, counted from 0; -1 if unknown."""

    def __init__(self, message: str, at: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
