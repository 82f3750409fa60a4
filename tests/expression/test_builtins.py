"""Cases outside of the table in test_evaluate.py: limits, and values known only during evaluation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies

from hsdns.expression.builtins import (
    BUILTINS,
    MAX_SIZE,
    MAX_STEPS,
    REFUSED,
    Scope,
    apply_predicate,
    equal,
    float_to_text,
    sort_by,
    to_float,
    to_int,
    to_json,
    wrap,
)
from hsdns.expression.parser import PREDICATES
from hsdns.expression.tree import ExpressionError


@given(strategies.floats(allow_nan=False, allow_infinity=False))
def test_text_of_a_float_gives_it_back(value: float) -> None:
    assert float(float_to_text(value)) == value


@given(strategies.integers())
def test_wrap(value: int) -> None:
    assert wrap(value) == int.from_bytes((value % 2**64).to_bytes(8, "big"), "big", signed=True)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        ("1", 1, False),
        (None, None, True),
        ([1, [2]], [1.0, [2]], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_equal(one: object, other: object, same: bool) -> None:
    assert equal(one, other) is same


@pytest.mark.parametrize(
    ("value", "number"), [("12", 12), ("-5", -5), ("+5", 5), (1.9, 1), (-1.9, -1), (7, 7)]
)
def test_to_int(value: object, number: int) -> None:
    assert to_int(value) == number


@pytest.mark.parametrize("value", ["", "x", "1.5", "1_0", "9223372036854775808", "٣", math.inf])
def test_not_to_int(value: object) -> None:
    with pytest.raises(ExpressionError, match="is not a whole number"):
        to_int(value)


@pytest.mark.parametrize("value", ["", "x", "nan", "1_0", "0x1"])
def test_not_to_float(value: str) -> None:
    with pytest.raises(ExpressionError, match="is not a number"):
        to_float(value)


def test_to_json() -> None:
    assert to_json({"b": [1, "<ü>"], "a": None}) == (
        '{\n  "a": null,\n  "b": [\n    1,\n    "\\u003cü\\u003e"\n  ]\n}'
    )
    with pytest.raises(ExpressionError, match="float cannot be written as JSON"):
        to_json(math.nan)


def test_budget() -> None:
    scope = Scope({})
    scope.step(MAX_STEPS)
    with pytest.raises(ExpressionError, match="more than 50000 steps"):
        scope.step()


def test_every_element_is_a_step() -> None:
    with pytest.raises(ExpressionError, match="more than 50000 steps"):
        apply_predicate("map", Scope({}), [0] * 50_001, lambda at: 0, None)


def test_predicates_stop_early() -> None:
    assert apply_predicate("any", Scope({}), [True] * 60_000, None, None) is True


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
