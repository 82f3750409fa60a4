"""Cases outside of the table in test_evaluate.py: limits, and values known only during evaluation."""

from __future__ import annotations

import pytest

from hsdns.expression.builtins import BUILTINS, MAX_SIZE, REFUSED, sort_by
from hsdns.expression.parser import PREDICATES
from hsdns.expression.tree import ExpressionError

DEEP: list[object] = []
for _ in range(60):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("repeat", ["ab", MAX_SIZE], "repeat makes more than 100000 characters"),
        ("replace", ["a" * 1000, "a", "b" * 1000], "replace makes more than 100000 characters"),
        ("join", [["a" * 60000, "b" * 60000]], "join makes more than 100000 characters"),
        ("concat", [[1] * 60000, [1] * 60000], "concat makes more than 100000 elements"),
        ("uniq", [list(range(1001))], "uniq takes at most 1000 elements"),
        ("flatten", [DEEP], "flatten: arrays are nested more than 50 deep"),
        ("flatten", [[[1] * 100001]], "flatten makes more than 100000 elements"),
        ("max", [DEEP], "max: arrays are nested more than 50 deep"),
        ("min", [["a"]], "min takes numbers, found string"),
        ("take", [[1], -1], "take takes a count of 0 or more, found -1"),
        ("fromPairs", [[[1]]], "fromPairs takes an array of pairs"),
        ("fromPairs", [[[[], 1]]], "fromPairs: array cannot be a key"),
        ("fromBase64", ["%"], 'fromBase64: "%" is not Base64 of text'),
        ("bitshl", [1, -1], "cannot shift by -1"),
        ("bitushr", [1, -1], "cannot shift by -1"),
    ],
)
def test_fails(name: str, arguments: list[object], reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        BUILTINS[name].run(*arguments)
    assert caught.value.message == reason


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("split", ["a,b", ",", 0], []),
        ("split", ["abc", "", 2], ["a", "bc"]),
        ("splitAfter", ["a,b,c", ",", 2], ["a,", "b,c"]),
        ("bitshr", [-8, 100], -1),
        ("bitushr", [-1, 64], 0),
        ("get", [None, 1], None),
        ("get", [5, 1], None),
        ("mean", [[]], 0.0),
        ("median", [[]], 0.0),
        ("abs", [-(2**63)], -(2**63)),
    ],
)
def test_value(name: str, arguments: list[object], value: object) -> None:
    assert BUILTINS[name].run(*arguments) == value


def test_sort_by() -> None:
    assert sort_by(["b", "a"], [2, 1]) == ["a", "b"]
    with pytest.raises(ExpressionError, match='the order must be "asc" or "desc", found "up"'):
        sort_by([], [], "up")
    with pytest.raises(ExpressionError, match="cannot compare string and int"):
        sort_by([1, 2], [1, "a"])


def test_a_name_means_one_thing() -> None:
    assert not BUILTINS.keys() & REFUSED
    assert not BUILTINS.keys() & PREDICATES.keys()
