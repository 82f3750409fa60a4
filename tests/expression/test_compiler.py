"""Expressions: the errors of their types with their positions, and their values.

The results were those of expr-lang/expr 1.17 with the same functions, when the rows were written.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from hsdns.expression.builtins import MAX_STEPS, to_text
from hsdns.expression.compiler import compile_expression
from hsdns.expression.parser import MAX_OPERATORS
from hsdns.expression.queries import NAMES, functions_of
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
    Signature,
    Type,
)
from tests.support.plugins.requests import make_request

QUERY = functions_of(make_request("Web.example.org."))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", "7"),
        ("name() == 'web.example.org.'", "true"),
        ("type() in ['A','AAAA']", "true"),
        ("2 ** 3 ** 2", "512"),
        ("-2 ** 2", "-4"),
        ("filter(1..10, # % 2 == 0)", "[2 4 6 8 10]"),
        ("any(['10.0.0.0/8','127.0.0.0/8'], incidr(client_ip(), #))", "true"),
        ("1 < 2 < 3", "true"),
        ("3 > 2 > 2", "false"),
        ("not (1 in [2])", "true"),
        ("1 not in [2]", "true"),
        ("'a' | upper() | repeat(3)", "AAA"),
        ("let x = 4; x * 2", "8"),
        ("if 1 > 2 { 'a' } else { 'b' }", "b"),
        ("if false { 1 } else if true { 2 } else { 3 }", "2"),
        ("{a: 1}.a", "1"),
        ("{a: {b: 2}}?.b?.c", "<nil>"),
        ("nil ?? 3", "3"),
        ("reduce(1..5, #acc + #)", "15"),
        ("reduce(1..5, #acc + #, 10)", "25"),
        ("reduce([1,2,3], #acc * #index)", "2"),
        ("sum([1,2.5])", "3.5"),
        ("sum([{a:1},{a:2}], .a)", "3"),
        ("1/0", "+Inf"),
        ("0/0", "NaN"),
        ("7 % -3", "1"),
        ("-7 % 3", "-1"),
        ("[1,2,3][1:]", "[2 3]"),
        ("[1,2,3][-1]", "3"),
        ("[1,2,3][:-1]", "[1 2]"),
        ("'abc'[0:2]", "ab"),
        ("'\\\\d'", "\\d"),
        ("name() matches '^web\\\\.'", "true"),
        ("1..3", "[1 2 3]"),
        ("3..1", "[]"),
        ("1e3", "1000"),
        ("0x1F", "31"),
        ("0o17", "15"),
        ("0b11", "3"),
        ("1_000", "1000"),
        ("017", "17"),
        ("split('a,b,c', ',')[1]", "b"),
        ("split('a,b,c', ',', 2)", "[a b,c]"),
        ("split('abc', '')", "[a b c]"),
        ("splitAfter('a,b', ',')", "[a, b]"),
        ("trim('  x ')", "x"),
        ("trim('__x__', '_')", "x"),
        ("trimPrefix('abc','a')", "bc"),
        ("trimSuffix('abc','c')", "ab"),
        ("replace('aaa','a','b',2)", "bba"),
        ("replace('aaa','a','b')", "bbb"),
        ("replace('abc','','-')", "-a-b-c-"),
        ("join(['a','b'],'-')", "a-b"),
        ("indexOf('abc','c')", "2"),
        ("lastIndexOf('abcabc','b')", "4"),
        ("hasPrefix('abc','a')", "true"),
        ("max(1,2.5,[7,[9]])", "9"),
        ("min([])", "<nil>"),
        ("mean([1,2])", "1.5"),
        ("median([3,1,2])", "2"),
        ("median(1,2)", "1.5"),
        ("abs(-3)", "3"),
        ("abs(-3.5)", "3.5"),
        ("ceil(1.2)", "2"),
        ("floor(-1.2)", "-2"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("int('12')", "12"),
        ("int(1.9)", "1"),
        ("float('1.5')", "1.5"),
        ("float(2)", "2"),
        ("string(1.0)", "1"),
        ("string([1,'a'])", "[1 a]"),
        ("string(nil)", "<nil>"),
        ("string({b:1,a:2})", "map[a:2 b:1]"),
        ("toJSON({a:1})", '{\n  "a": 1\n}'),
        ("fromJSON('{\"a\":[1,2]}').a", "[1 2]"),
        ("toBase64('abc')", "YWJj"),
        ("fromBase64('YWJj')", "abc"),
        ("first([1,2])", "1"),
        ("last([])", "<nil>"),
        ("get({a:1},'b')", "<nil>"),
        ("get([1],5)", "<nil>"),
        ("take([1,2,3],2)", "[1 2]"),
        ("keys({a:1})", "[a]"),
        ("values({a:1})", "[1]"),
        ("toPairs({a:1})", "[[a 1]]"),
        ("fromPairs([['a',1]])", "map[a:1]"),
        ("reverse([1,2])", "[2 1]"),
        ("uniq([1,2,1,1.0])", "[1 2]"),
        ("concat([1],[2])", "[1 2]"),
        ("flatten([1,[2,[3]]])", "[1 2 3]"),
        ("sort([3,1,2])", "[1 2 3]"),
        ("sort(['b','a'],'desc')", "[b a]"),
        ("sortBy([{a:2},{a:1}], .a)", "[map[a:1] map[a:2]]"),
        ("sortBy([3,1,2], #, 'desc')", "[3 2 1]"),
        ("sortBy([3,1,2], -#)", "[3 2 1]"),
        ("groupBy([1,2,3], # % 2 == 0 ? 'even' : 'odd')", "map[even:[2] odd:[1 3]]"),
        ("count([1,2,3], # > 1)", "2"),
        ("count([true,false])", "1"),
        ("find([1,2,3], # > 1)", "2"),
        ("findIndex([1,2,3], # > 5)", "<nil>"),
        ("findLast([1,2,3], # < 3)", "2"),
        ("findLastIndex([1,2,3], # < 3)", "1"),
        ("all([1,2], # > 0)", "true"),
        ("none([1,2], # > 5)", "true"),
        ("one([1,2], # > 1)", "true"),
        ("map([1,2], # * 2)", "[2 4]"),
        ("map(['a'], upper(#))", "[A]"),
        ("map([1,2], {let y = #; y + 1})", "[2 3]"),
        ("bitand(6,3)", "2"),
        ("bitor(6,3)", "7"),
        ("bitxor(6,3)", "5"),
        ("bitnand(6,3)", "4"),
        ("bitnot(6)", "-7"),
        ("bitshl(1,62)", "4611686018427387904"),
        ("bitshl(1,64)", "0"),
        ("bitshr(-8,1)", "-4"),
        ("bitushr(-8,60)", "15"),
        ("9223372036854775807 + 1", "-9223372036854775808"),
        ("true and false or true", "true"),
        ("!true", "false"),
        ("not true", "false"),
        ("1 == 1.0", "true"),
        ("nil == nil", "true"),
        ("[1] == [1]", "true"),
        ("[1,2] == [1,2.0]", "true"),
        ("{a:1} == {a:1}", "true"),
        ("true ? 1 : 2", "1"),
        ("false ?: 3", "3"),
        ("1 > 2 ? 'a' : 2 > 1 ? 'b' : 'c'", "b"),
        ("'a' in {a: 1}", "true"),
        ("'abc' contains 'b'", "true"),
        ("'abc' not contains 'x'", "true"),
        ("'abc' startsWith 'ab'", "true"),
        ("'a' + 'b'", "ab"),
        ("1 + 2.5", "3.5"),
        ("5 / 2", "2.5"),
        ("4 / 2", "2"),
        ("2 - 3", "-1"),
        ("2 * 2.5", "5"),
        ("2 ^ 0.5", "1.4142135623730951"),
        ("1 | string()", "1"),
        ("- - 1", "1"),
        ("+3", "3"),
        ("(1)", "1"),
        ("[1,2,]", "[1 2]"),
        ("{a:1,}", "map[a:1]"),
        ("{'a b': 1}['a b']", "1"),
        ("{1: 2}", "map[1:2]"),
        ('"a\\tb"', "a\tb"),
        ('"a\\x41\\u0042\\101"', "aABA"),
        ("`a\\b`", "a\\b"),
        ("`a``b`", "a`b"),
        ("'it\\'s'", "it's"),
        ('"it\'s"', "it's"),
        ("1 // comment", "1"),
        ("/* c */ 1", "1"),
        ("1; 2", "2"),
        ("1;", "1"),
        ("do() or true", "true"),
        ("size() > 10 && size() < 100", "true"),
        ("port() == '40000'", "true"),
        ("bufsize() >= 512", "true"),
        ("opcode() == 0", "true"),
        ("metadata('a/b') == ''", "true"),
        ("len(name())", "16"),
        ("len([1,2])", "2"),
        ("len({a:1})", "1"),
        ("len('ü')", "1"),
        ("upper('ü')", "Ü"),
        ("lower('ABC')", "abc"),
        ("repeat('ab', 3)", "ababab"),
        ("type()", "A"),
        ("any([1,2], {# > 1})", "true"),
        ("filter([{a:1,b:2}], .a == 1)", "[map[a:1 b:2]]"),
        ("filter([1], true) | len()", "1"),
        ("[1,2,3] | map(# * 2) | sum()", "12"),
        ("1.0", "1"),
        ("1.5e300 * 1e10", "+Inf"),
        ("1e21", "1e+21"),
        ("1e20", "1e+20"),
        ("0.00001", "1e-05"),
        ("0.0001", "0.0001"),
        ("100000.0", "100000"),
        ("{a: nil}.a?.b.c", "<nil>"),
        ("incidr('::ffff:10.0.0.1','10.0.0.0/8')", "true"),
        ("incidr('10.0.0.1','10.1.2.3/8')", "true"),
        ("(1 ?? 2) + 3", "4"),
        ("1 + (nil ?? 2)", "3"),
        ("not not true", "true"),
        ("!(1 > 2)", "true"),
        ("-1 in [-1]", "true"),
        ("1 in 1..3", "true"),
        ("[1,'a',nil,true]", "[1 a <nil> true]"),
        ("map(1..3, {#})", "[1 2 3]"),
        ("map([[1,2],[3]], map(#, # * 10))", "[[10 20] [30]]"),
        ("all([], false)", "true"),
        ("any([], true)", "false"),
        ("1 == nil", "false"),
        ("name() != nil", "true"),
        ("'b' > 'a'", "true"),
        ("'ab' matches 'a' + 'b'", "true"),
        ("'ab' matches ['a'][0]", "true"),
        ("toJSON('a<b')", '"a\\u003cb"'),
        ("groupBy([1], #)", "map[1:[1]]"),
        ("1234567.0", "1.234567e+06"),
        ("1000000.0", "1e+06"),
        ("123456.5", "123456.5"),
        ("12345678.25", "1.234567825e+07"),
        ("0.00012345", "0.00012345"),
        ("-1234567.0", "-1.234567e+06"),
        ("0.0", "0"),
        ("-0.0", "-0"),
        ("1e-7", "1e-07"),
        ("1e100", "1e+100"),
        ("-1/0", "-Inf"),
        ("findLastIndex([1, 3], # > 5)", "<nil>"),
        ("find([1], # > 5)", "<nil>"),
        ("one([1, 2], true)", "false"),
        ("größe ?? 1", "2"),
        ("map([5], sum(map([1], #)) + #)", "[6]"),
        ("map([5], reduce([1, 2], #acc + #) + #)", "[8]"),
    ],
)
def test_value(text: str, value: str) -> None:
    names: dict[str, Type | Signature] = {**NAMES, "größe": INT}
    assert to_text(compile_expression(text, names).run({**QUERY, "größe": 2})) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{a: {b: 2}}.b.c", "nil has no member c"),
        ("{a: 1}[fromJSON('[]')]", "array cannot be a key"),
        ("filter(fromJSON('[1]'), #)", "filter takes a condition of type bool, found float"),
        ("groupBy([[1]], #)", "groupBy: array cannot be a key"),
        (
            "reduce([], #acc + #)",
            "reduce of an empty array needs an initial value as third argument",
        ),
        ("7 % 0", "division by zero"),
        ("[1,2,3][5]", "index 5 is out of range for 3 elements"),
        ("join(['a',1],'-')", "join takes an array of strings, found int in it"),
        ("int('x')", '"x" is not a whole number'),
        ("{(1+1): 2}", "a key of a map must be a string, found int"),
        ("repeat('a', -1)", "repeat takes a count of 0 or more, found -1"),
        ("incidr('x','10.0.0.0/8')", 'incidr: "x" is not an address'),
        ("incidr('10.0.0.1','x')", 'incidr: "x" is not a network'),
        ("incidr('10.0.0.1','10.0.0.1')", 'incidr: "10.0.0.1" is not a network'),
        ("sum(['a'])", "sum takes numbers, found string"),
        ("sort([1,'a'])", "cannot compare string and int"),
        ("fromJSON('{')", 'fromJSON: "{" is not JSON'),
        ("1..60000", "the expression takes more than 50000 steps"),
        ("sum(map(1..1000, sum(map(1..1000, #))))", "the expression takes more than 50000 steps"),
        ("repeat('a', 100001)", "repeat makes more than 100000 characters"),
        ("fromJSON('1') and true", "a condition must be bool, found float"),
        ("fromJSON('1').a", "float has no member a"),
        ("lower(fromJSON('1'))", "lower takes string, found float"),
        ("fromJSON('1') contains 'x'", "expected a string, found float"),
        ("fromJSON('\"x\"') - 1", '"-" does not take string and int'),
        ("1 in fromJSON('1')", '"in" needs an array or a map, found float'),
        (
            "fromJSON('[]')[fromJSON('\"x\"')]",
            "an index of an array must be a number, found string",
        ),
        ("fromJSON('1')[1:2]", "cannot slice float"),
        ("all(fromJSON('1'), true)", "all takes an array, found float"),
        ("all(fromJSON('[1]'), #)", "all takes a condition of type bool, found float"),
        ("-fromJSON('true')", '"-" does not take bool'),
        ("'a' matches fromJSON('\"(\"')", '"(" is not a regular expression: missing ): ('),
    ],
)
def test_fails(text: str, reason: str) -> None:
    program = compile_expression(text, NAMES)
    with pytest.raises(ExpressionError) as caught:
        program.run(QUERY)
    assert caught.value.message == reason


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
def test_type_errors(text: str, at: int, reason: str) -> None:
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
def test_type_of_result(text: str, expected: Type) -> None:
    assert compile_expression(text, NAMES).type == expected


def test_variables() -> None:
    program = compile_expression("n * 2 > limit", {"n": INT, "limit": ANY})
    assert program.holds({"n": 3, "limit": 5})
    assert not program.holds({"n": 2, "limit": 5})
    with pytest.raises(ExpressionError, match="cannot compare string and int"):
        program.holds({"n": 2, "limit": "x"})


def test_only_true_holds() -> None:
    assert not compile_expression("1", {}).holds({})
    assert not compile_expression("nil", {}).holds({})


def test_what_is_not_needed_is_not_evaluated() -> None:
    asked: list[str] = []
    names = {"name": NAMES["name"]}

    def name() -> str:
        asked.append("name")
        return ""

    assert compile_expression("true or name() == ''", names).run({"name": name}) is True
    assert compile_expression("false ? name() : 1", names).run({"name": name}) == 1
    assert compile_expression("1 ?? name()", names).run({"name": name}) == 1
    assert asked == []


def test_steps_are_for_one_evaluation() -> None:
    program = compile_expression(f"count(1..{MAX_STEPS // 3}, # > 0)", {})
    assert program.run({}) == MAX_STEPS // 3
    assert program.run({}) == MAX_STEPS // 3


def test_the_longest_chain() -> None:
    assert compile_expression("1" + "+1" * MAX_OPERATORS, {}).run({}) == MAX_OPERATORS + 1


@given(strategies.text(alphabet="1a.[](){}'\"#+-*/?:|,<>=! inotrue&;@$", max_size=30))
def test_any_text_gives_a_value_or_an_error(text: str) -> None:
    try:
        compile_expression(text, NAMES).run(QUERY)
    except ExpressionError as error:
        assert -1 <= error.at <= len(text)
