from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies

from hsdns.expression.builtins import equal, float_to_text, member, to_float, to_int, to_json, wrap
from hsdns.expression.tree import ExpressionError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (1.5, "1.5"),
        (100000.0, "100000"),
        (123456.5, "123456.5"),
        (1000000.0, "1e+06"),
        (12345678.25, "1.234567825e+07"),
        (-1234567.0, "-1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e-7, "1e-07"),
        (1e100, "1e+100"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_float_to_text(value: float, text: str) -> None:
    assert float_to_text(value) == text


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
    ("holder", "key", "reason"),
    [
        ({}, [], "array cannot be a key"),
        ([1], 1, "index 1 is out of range for 1 elements"),
        ([1], "a", "an index of an array must be a number, found string"),
        (5, "a", "int has no member a"),
    ],
)
def test_member_that_is_not_there(holder: object, key: object, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        member(holder, key)
    assert caught.value.message == reason


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
