from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.gotemplate.functions import MAX_WIDTH, Record, sprintf


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
