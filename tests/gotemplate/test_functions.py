"""Cases outside of the table in test_evaluate.py."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.gotemplate.functions import FUNCTIONS, Record, parse_int
from hsdns.gotemplate.tree import TemplateError


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("index", ["abc", 1], 98),
        ("slice", [[1, 2, 3], 1, 2, 3], [2]),
        ("print", [None, 1, "a"], "<nil> 1a"),
        ("html", [1, 2], "1 2"),
        ("js", ["<&=>\"'\n"], "\\u003C\\u0026\\u003D\\u003E\\\"\\'\\n"),
        ("ge", [2, 1], True),
        ("gt", [1, 1], False),
        ("le", ["a", "b"], True),
    ],
)
def test_value(name: str, arguments: list[object], value: object) -> None:
    assert FUNCTIONS[name][2](*arguments) == value


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("eq", [Record("pair", {}), 1], "cannot compare pair"),
        ("lt", [None, 1], "cannot compare nil and int"),
        ("lt", [True, False], "cannot order bool"),
        ("len", [5], "len of int"),
        ("index", [[1], True], "cannot index slice with bool"),
        ("slice", [[1], 1, 0], "slice 1:0 is out of range, there are 1"),
    ],
)
def test_fails(name: str, arguments: list[object], reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        FUNCTIONS[name][2](*arguments)
    assert caught.value.message == reason


@given(strategies.integers(0, 2**64 - 1), strategies.sampled_from([2, 8, 10, 16]))
def test_parse_int_reads_what_was_written(number: int, radix: int) -> None:
    form = {2: "b", 8: "o", 10: "d", 16: "x"}[radix]
    assert parse_int(format(number, form), radix, 64) == number


@pytest.mark.parametrize(
    ("text", "radix", "bits", "reason"),
    [
        ("256", 10, 8, 'parseInt: "256" does not fit in 8 bits'),
        ("1" + "0" * 64, 2, 0, 'parseInt: "' + "1" + "0" * 64 + '" does not fit in 64 bits'),
        ("g", 16, 8, 'parseInt: "g" is not a number of radix 16'),
        ("٣", 10, 8, 'parseInt: "٣" is not a number of radix 10'),
        ("1", 37, 8, "parseInt: radix 37 with 8 bits does not exist"),
        ("1", 10, 65, "parseInt: radix 10 with 65 bits does not exist"),
        ("1", "10", 8, "parseInt takes a text, a radix and a number of bits"),
    ],
)
def test_parse_int_fails(text: str, radix: object, bits: object, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse_int(text, radix, bits)
    assert caught.value.message == reason
