from __future__ import annotations

from hsdns.expression.tree import ExpressionError


def test_says_what_and_where() -> None:
    error = ExpressionError("what", 3)
    assert (str(error), error.message, error.at) == ("what", "what", 3)
    assert ExpressionError("what").at == -1
