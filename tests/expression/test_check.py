"""Type errors and their positions."""

from __future__ import annotations

import pytest

from hsdns.expression.compiler import compile_expression
from hsdns.expression.queries import NAMES
from hsdns.expression.tree import (
    ANY,
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    MAP,
    NIL,
    STRING,
    ExpressionError,
    Type,
)


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("name() == 1", 7, '"==" does not take string and int'),
        ("'abc'[1]", 5, "string has no members"),
        ("nam()", 0, 'function "nam" is not known; did you mean "name"?'),
        ("foo", 0, '"foo" is not known; did you mean "floor"?'),
        ("name() matches '('", 15, '"(" is not a regular expression: missing ): ('),
        ("'1' == 1", 4, '"==" does not take string and int'),
        ("1 in {a: 1}", 2, '"in" does not take int and map'),
        ("1 in ['a']", 2, '"in" does not take int and array of string'),
        ("'a' in 'abc'", 4, '"in" does not take string and string'),
        ("not 'abc' startsWith 'ab'", 0, '"not" does not take string'),
        ("'a' + 1", 4, '"+" does not take string and int'),
        ("1 and true", 2, '"and" does not take int and bool'),
        ("nil and true", 4, '"and" does not take nil and bool'),
        ("-'a'", 0, '"-" does not take string'),
        ("server_port() == 53", 14, '"==" does not take string and int'),
        ("len(5)", 4, "len takes string or array or map here, found int"),
        ("type(1)", 0, "type takes 0 arguments, found 1"),
        ("any([1,2], #)", 11, "any takes a condition of type bool, found int"),
        ("let x = 1; let x = 2; x", 15, '"x" is already defined; choose another name'),
        ("let name = 1; name", 4, '"name" is already defined; choose another name'),
        ("name()?.a", 8, "string has no members"),
        ("incidr('10.0.0.1')", 0, "incidr takes 2 arguments, found 1"),
        ("incidr('10.0.0.1','10.0.0.0/8','x')", 0, "incidr takes 2 arguments, found 3"),
        ("incidr(1,'10.0.0.0/8')", 7, "incidr takes string here, found int"),
        ("first('abc')", 6, "first takes array here, found string"),
        ("'a' < 1", 4, '"<" does not take string and int'),
        ("true > false", 5, '">" does not take bool and bool'),
        ("[1] > [2]", 4, '">" does not take array of int and array of int'),
        ("1..'a'", 1, '".." does not take int and string'),
        ("2 matches '2'", 2, '"matches" does not take int and string'),
        ("'2' matches 2", 4, '"matches" does not take string and int'),
        ("max('a')", 4, "max takes number or array here, found string"),
        ("int(nil)", 4, "int takes number or string here, found nil"),
        ("concat()", 0, "concat takes 1 or more arguments, found 0"),
        ("bitand(1.5, 2)", 7, "bitand takes int here, found float"),
        ("round('a')", 6, "round takes number here, found string"),
        ("keys([1])", 5, "keys takes map here, found array of int"),
        (
            "now()",
            0,
            "now() exists in CoreDNS but not in hsdns, where expressions have no access to the time",
        ),
        ("$env", 0, '"$env" is not known'),
        ("name", 0, "name is a function; write name()"),
        ("let x = 1; x()", 11, "x is not a function"),
        ("any([1], #acc)", 9, '"#acc" is not known'),
        ("any([1], #)", 9, "any takes a condition of type bool, found int"),
        ("any(1, true)", 4, "any takes an array, found int"),
        ("sortBy([1], #, 2)", 15, "the order must be a string, found int"),
        ("1 ? 2 : 3", 0, "a condition must be bool, found int"),
        ("[1]['a']", 3, "an index of an array must be a number, found string"),
        ("{a: 1}[1]", 6, "a key of a map must be a string, found int"),
        ("name()['a':]", 7, "a bound must be a whole number, found string"),
        ("size()[1:]", 6, "cannot slice int"),
        ("split('a')", 0, "split takes 2 to 3 arguments, found 1"),
        ("upper()", 0, "upper takes 1 argument, found 0"),
    ],
)
def test_refused(text: str, at: int, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, NAMES)
    assert (caught.value.at, caught.value.message) == (at, reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", INT),
        ("1.5 + 1", FLOAT),
        ("'a' + 'b'", STRING),
        ("nil", NIL),
        ("nil ?? 1", INT),
        ("1 ?? nil", INT),
        ("{a: 1}.b + 1", ANY),
        ("{a: 1}", MAP),
        ("[1, 2]", Type("array", INT)),
        ("[1, 2][0]", INT),
        ("[]", ARRAY),
        ("1..2", Type("array", INT)),
        ("map([1], string(#))", Type("array", STRING)),
        ("filter([1], # > 0)", Type("array", INT)),
        ("find([1], # > 0)", INT),
        ("count([true])", INT),
        ("groupBy([1], #)", MAP),
        ("reduce([1], #acc + #)", ANY),
        ("true ? 1 : nil", INT),
        ("true ? 1 : 'a'", ANY),
        ("let x = 1; x > 0", BOOL),
        ("1; 'a'", STRING),
        ("name()[1:]", STRING),
        ("-size()", INT),
        ("not do()", BOOL),
        ("{a: 1}?.a", ANY),
    ],
)
def test_type(text: str, expected: Type) -> None:
    assert compile_expression(text, NAMES).type == expected
