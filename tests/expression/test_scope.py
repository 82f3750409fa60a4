from __future__ import annotations

import pytest

from hsdns.expression.builtins import MAX_STEPS, Scope
from hsdns.expression.tree import ExpressionError


def test_names() -> None:
    scope = Scope({"a": 1, "b": 2})
    scope.lets["a"] = 3
    assert (scope.lookup("a"), scope.lookup("b")) == (3, 2)


def test_budget() -> None:
    scope = Scope({})
    scope.step(MAX_STEPS)
    with pytest.raises(ExpressionError, match="more than 50000 steps"):
        scope.step()
