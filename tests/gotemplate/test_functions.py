"""Cases outside of the table in test_evaluate.py."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.gotemplate.functions import (
    FUNCTIONS,
    MAX_WIDTH,
    MISSING,
    Method,
    Record,
    StringMap,
    field_of,
    is_true,
    kind_of,
    parse_int,
    sprintf,
    to_text,
)
from hsdns.gotemplate.tree import TemplateError

PAIR = Record("pair", {"A": 1, "B": "x", "C": Method(0, lambda: 1)})


@pytest.mark.parametrize(
    ("value", "text", "kind", "truth"),
    [
        ("", "", "string", False),
        ("a", "a", "string", True),
        (0, "0", "int", False),
        (True, "true", "bool", True),
        (1.5, "1.5", "float64", True),
        ([], "[]", "slice", False),
        ([1, PAIR], "[1 {1 x}]", "slice", True),
        ({"b": 1, "a": "x"}, "map[a:x b:1]", "map", True),
        (StringMap(a="x"), "map[a:x]", "map", True),
        (PAIR, "{1 x}", "pair", True),
        (None, "<nil>", "nil", False),
        (MISSING, "<no value>", "nil", False),
    ],
)
def test_what_a_value_is(value: object, text: str, kind: str, truth: bool) -> None:
    assert (to_text(value), kind_of(value), is_true(value)) == (text, kind, truth)


def test_field_of() -> None:
    assert field_of(PAIR, "A") == 1
    assert field_of({"a": 1}, "a") == 1
    assert field_of({}, "a") is MISSING
    assert field_of(StringMap(), "a") is MISSING
    with pytest.raises(TemplateError, match="there is no field D in pair"):
        field_of(PAIR, "D")
    with pytest.raises(TemplateError, match="there is no field A in a value of kind int"):
        field_of(5, "A")


@pytest.mark.parametrize(
    ("form", "values", "made"),
    [  # what Go's fmt made of them
        ("%d-%s", [5, "x"], "5-x"),
        ("%05d", [42], "00042"),
        ("%-5d.", [42], "42   ."),
        ("%5d", [42], "   42"),
        ("%+d", [42], "+42"),
        ("%x", [255], "ff"),
        ("%X", [255], "FF"),
        ("%#x", [255], "0xff"),
        ("%o", [8], "10"),
        ("%b", [5], "101"),
        ("%c", [65], "A"),
        ("%U", [65], "U+0041"),
        ("%q", [65], "'A'"),
        ("%s", [5], "%!s(int=5)"),
        ("%d", ["x"], "%!d(string=x)"),
        ("%d", [], "%!d(MISSING)"),
        ("a", [1], "a%!(EXTRA int=1)"),
        ("%q", ['a"b'], '"a\\"b"'),
        ("%v", ["a"], "a"),
        ("%T", ["a"], "string"),
        ("%T", [1], "int"),
        ("%.2f", [1.2345], "1.23"),
        ("%6.2f", [1.2345], "  1.23"),
        ("%e", [1.2345], "1.234500e+00"),
        ("%g", [1.2345], "1.2345"),
        ("%08.3f", [3.14159], "0003.142"),
        ("%+.1e", [12345.678], "+1.2e+04"),
        ("%.3g", [1234.5678], "1.23e+03"),
        ("%G", [1e-07], "1E-07"),
        ("%t", [True], "true"),
        ("%v", [None], "<nil>"),
        ("%d", [None], "%!d(<nil>)"),
        ("%5s", ["ab"], "   ab"),
        ("%-5s.", ["ab"], "ab   ."),
        ("%.2s", ["abcd"], "ab"),
        ("%x", ["hi"], "6869"),
        ("%X", ["hi"], "6869"),
        ("% x", ["hi"], "68 69"),
        ("%%", [], "%"),
        ("%[2]d %[1]d", [1, 2], "2 1"),
        ("%[3]d", [1, 2], "%!d(BADINDEX)"),
        ("%*d", [5, 42], "   42"),
        ("%-*d.", [5, 42], "42   ."),
        ("%*d", [-5, 42], "42   "),
        ("%!", [], "%!!(MISSING)"),
        ("%z", [3], "%!z(int=3)"),
        ("%", [], "%!(NOVERB)"),
        ("%03d", [-5], "-05"),
        ("% d", [5], " 5"),
        ("%6.3d", [7], "   007"),
        ("%-8q.", ["a"], '"a"     .'),
        ("%d %d", [1], "1 %!d(MISSING)"),
        ("%s", [True], "%!s(bool=true)"),
        ("%d", [1.5], "%!d(float64=1.5)"),
        ("%f", [1], "%!f(int=1)"),
        ("%5t", [True], " true"),
        ("%05s", ["ab"], "000ab"),
        ("%.0f", [2.5], "2"),
        ("%v", [1234567.0], "1.234567e+06"),
        ("%+v", [5], "5"),
        ("%#q", ["a`b"], '"a`b"'),
        ("%q", ["ü\t"], '"ü\\t"'),
        ("%05.1f", [-2.25], "-02.2"),
        ("%v", [Record("pair", {"A": 1, "B": "x"})], "{1 x}"),
        ("%d", [[1, 2]], "[1 2]"),
        ("%v", [[1, "a"]], "[1 a]"),
        ("%T", [Record("pair", {})], "pair"),
        ("%T %T %T", [[], {}, None], "[]interface {} map <nil>"),
        ("%c", [-1], "\ufffd"),
        ("%99999d", [1], "1".rjust(MAX_WIDTH)),
    ],
)
def test_sprintf(form: str, values: list[object], made: str) -> None:
    assert sprintf(form, values) == made


@given(
    strategies.text(alphabet="%+-# 0123.*[]dsxXqvTtgefcUbo", max_size=20),
    strategies.lists(strategies.one_of(
        strategies.none(), strategies.booleans(), strategies.integers(), strategies.floats(), strategies.text()
    ), max_size=4),
)  # fmt: skip
def test_it_never_fails(form: str, values: list[object]) -> None:
    assert isinstance(sprintf(form, values), str)


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
