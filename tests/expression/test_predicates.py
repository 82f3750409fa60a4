from __future__ import annotations

import pytest

from hsdns.expression.builtins import Scope, apply_predicate
from hsdns.expression.tree import ExpressionError


@pytest.mark.parametrize(
    ("name", "items", "value"),
    [
        ("all", [2, 4], True),
        ("all", [2, 3], False),
        ("none", [1, 3], True),
        ("any", [1, 2], True),
        ("one", [1, 2, 4], False),
        ("count", [1, 2, 4], 2),
        ("filter", [1, 2, 4], [2, 4]),
        ("map", [1, 2], [False, True]),
        ("find", [1, 2, 4], 2),
        ("find", [1], None),
        ("findIndex", [1, 2, 4], 1),
        ("findLast", [1, 2, 4], 4),
        ("findLastIndex", [1, 2, 4], 2),
        ("groupBy", [1, 2, 4], {False: [1], True: [2, 4]}),
    ],
)
def test_even(name: str, items: list[int], value: object) -> None:
    scope = Scope({})
    even = apply_predicate(name, scope, items, lambda at: at.elements[-1][""] % 2 == 0, None)
    assert even == value
    assert scope.elements == []


@pytest.mark.parametrize(
    ("name", "items", "reason"),
    [
        ("all", 5, "all takes an array, found int"),
        ("filter", [1], "filter takes a condition of type bool, found int"),
        ("groupBy", [[1]], "groupBy: array cannot be a key"),
        ("reduce", [], "reduce of an empty array needs an initial value as third argument"),
        ("sum", ["a"], "sum takes numbers, found string"),
    ],
)
def test_fails(name: str, items: object, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        apply_predicate(name, Scope({}), items, lambda at: at.elements[-1][""], None)
    assert caught.value.message == reason


def test_every_element_is_a_step() -> None:
    with pytest.raises(ExpressionError, match="more than 50000 steps"):
        apply_predicate("map", Scope({}), [0] * 50_001, lambda at: 0, None)


def test_predicates_stop_early() -> None:
    assert apply_predicate("any", Scope({}), [True] * 60_000, None, None) is True
