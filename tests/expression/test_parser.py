from __future__ import annotations

import pytest

from hsdns.expression import tree
from hsdns.expression.parser import MAX_DEPTH, MAX_LEN, MAX_OPERATORS, parse
from hsdns.expression.tree import ExpressionError, Node


def shape(node: Node | None) -> str:
    """Format a tree with all brackets."""
    match node:
        case tree.Literal(value=value):
            return repr(value)
        case tree.Identifier(name=name):
            return name
        case tree.Pointer(name=name):
            return f"#{name}"
        case tree.Unary(operator=operator, operand=operand):
            return f"({operator} {shape(operand)})"
        case tree.Binary(operator=operator, left=left, right=right):
            return f"({shape(left)} {operator} {shape(right)})"
        case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
            return f"({shape(condition)} ? {shape(then)} : {shape(otherwise)})"
        case tree.Member(holder=holder, key=key, optional=optional):
            return f"{shape(holder)}{'?' * optional}[{shape(key)}]"
        case tree.Chain(link=link):
            return f"chain({shape(link)})"
        case tree.Slice(holder=holder, start=start, end=end):
            return f"{shape(holder)}[{shape(start)}:{shape(end)}]"
        case tree.Call(name=name, arguments=arguments):
            return f"{name}({', '.join(map(shape, arguments))})"
        case tree.Predicate(body=body):
            return f"{{{shape(body)}}}"
        case tree.Let(name=name, value=value, body=body):
            return f"let {name} = {shape(value)}; {shape(body)}"
        case tree.Sequence(parts=parts):
            return "; ".join(map(shape, parts))
        case tree.Array(items=items):
            return f"[{', '.join(map(shape, items))}]"
        case tree.Map(pairs=pairs):
            return f"{{{', '.join(f'{shape(key)}: {shape(value)}' for key, value in pairs)}}}"
    return ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", "(1 + (2 * 3))"),
        ("2 ** 3 ** 2", "(2 ** (3 ** 2))"),
        ("1 - 2 - 3", "((1 - 2) - 3)"),
        ("-2 ** 2", "(- (2 ** 2))"),
        ("a and b or c", "((a and b) or c)"),
        ("not a and b", "((not a) and b)"),
        ("not a == b", "((not a) == b)"),
        ("!a.b", "(! a['b'])"),
        ("a not in b", "(not (a in b))"),
        ("a not contains b and c", "((not (a contains b)) and c)"),
        ("1 < 2 <= 3", "((1 < 2) && (2 <= 3))"),
        ("a ?? b ?? c", "((a ?? b) ?? c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ?: b", "(a ? a : b)"),
        ("if a { 1 } else if b { 2 } else { 3 }", "(a ? 1 : (b ? 2 : 3))"),
        ("a.b[0]?.c", "chain(a['b'][0]?['c'])"),
        ("a?.[0]", "chain(a?[0])"),
        ("a[1:]", "a[1:]"),
        ("a[:2]", "a[:2]"),
        ("a[:]", "a[:]"),
        ("f(1, 2,)", "f(1, 2)"),
        ("::f(1)", "f(1)"),
        ("a | f(1) | g()", "g(f(a, 1))"),
        ("any(a, # > 1)", "any(a, {(# > 1)})"),
        ("any(a, {.b})", "any(a, {#['b']})"),
        ("a | filter(# > 1)", "filter(a, {(# > 1)})"),
        ("reduce(a, #acc + #, 1)", "reduce(a, {(#acc + #)}, 1)"),
        ("let x = 1; x + 1", "let x = 1; (x + 1)"),
        ("1; 2;", "1; 2"),
        ("[1, [2],]", "[1, [2]]"),
        ("{a: 1, 'b': 2, 3: 4, (c): 5}", "{'a': 1, 'b': 2, '3': 4, c: 5}"),
        ("a.matches", "a['matches']"),
        ("(1 + 2) * 3", "((1 + 2) * 3)"),
    ],
)
def test_shape(text: str, expected: str) -> None:
    assert shape(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        ("'abc", 0, "the string is not closed"),
        ("a 'b\n'", 2, "the string is not closed"),
        ("`abc", 0, "the string is not closed"),
        (r"'\d'", 1, r'"\d" is not an escape sequence; write a backslash as "\\"'),
        (r"'\uD800'", 1, r'"\u" is not an escape sequence; write a backslash as "\\"'),
        ("""'\\"'""", 1, '"\\"" is not an escape sequence; write a backslash as "\\\\"'),
        ("1a", 0, '"1a" is not a number'),
        ("a @ b", 2, '"@" has no meaning in an expression'),
        ("a /* b", 2, "the comment is not closed"),
        ("b'x'", 0, "byte literals are not supported; write a string"),
        ("1" * (MAX_LEN + 1), MAX_LEN, "the expression has more than 10000 characters"),
        ("", 0, "found the end, expected a value"),
        ("name(", 5, "found the end, expected a value"),
        ("1.5.2", 3, 'found ".2", which is not valid here'),
        ("9223372036854775808", 0, '"9223372036854775808" is too large'),
        ("1e999", 0, '"1e999" is too large'),
        ("()", 1, 'found ")", expected a value'),
        ("1 2", 2, 'found "2", which is not valid here'),
        ("::type", 6, 'found the end, expected "("'),
        ("let let = 1; let", 4, 'found "let", expected a name'),
        ("nil?.a", 3, 'found "?.", which is not valid here'),
        ("#", 0, 'found "#", expected a value'),
        (".a", 0, 'found ".", expected a value'),
        ("1 ?? 2 + 3", 7, '"+" and "??" need brackets around one of them'),
        ("a not b", 6, 'found "b", expected in, matches, contains, startsWith or endsWith'),
        ("a.1", 1, 'found ".1", which is not valid here'),
        ("a.(1)", 2, "a name must follow the dot"),
        ("a.b()", 2, 'there is no method "b"'),
        ("{[1]: 2}", 1, 'found "[", expected a key: a name, a string, a number or (EXPRESSION)'),
        ("any(a)", 0, "any takes 2 arguments, found 1"),
        ("sum()", 0, "sum takes 1 to 2 arguments, found 0"),
        ("reduce(a)", 0, "reduce takes 2 to 3 arguments, found 1"),
        ("a |", 3, "found the end, expected a name"),
        ("if a { 1 }", 10, 'found the end, expected "else"'),
        ("(" * MAX_DEPTH + "1", MAX_DEPTH, "nested more than 40 deep"),
        ("1" + "+1" * (MAX_OPERATORS + 1), 602, "more than 300 operators"),
    ],
)
def test_refused(text: str, at: int, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.at, caught.value.message) == (at, reason)


def test_what_is_still_allowed() -> None:
    parse("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1))
    parse("1" + "+1" * MAX_OPERATORS)
    parse("[" + "1," * 3000 + "]")
