"""Expressions, as expressions.txt writes them: values, types, trees and errors; limits and properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies

from hsdns.corefile.tree import CorefileError
from hsdns.expression import tree
from hsdns.expression.builtins import (
    BUILTINS,
    MAX_STEPS,
    REFUSED,
    Scope,
    apply_predicate,
    float_to_text,
    to_text,
    wrap,
)
from hsdns.expression.compiler import compile_expression
from hsdns.expression.parser import MAX_OPERATORS, PREDICATES, parse
from hsdns.expression.queries import NAMES, functions_of, read_expression
from hsdns.expression.reading import MAX_DEPTH
from hsdns.expression.tree import ANY, INT, ExpressionError, Node, Signature, Type
from hsdns.wire.edns import Edns
from tests.support.plugins.requests import make_request
from tests.support.plugins.setup import directives
from tests.support.tables import columns

TABLE = Path(__file__).with_name("expressions.txt")
QUERY = functions_of(make_request("Web.example.org."))


@pytest.mark.parametrize(("text", "value"), columns(TABLE, "values"))
def test_value(text: str, value: str) -> None:
    names: dict[str, Type | Signature] = {**NAMES, "größe": INT}
    assert to_text(compile_expression(text, names).run({**QUERY, "größe": 2})) == value


@pytest.mark.parametrize(("text", "reason"), columns(TABLE, "errors of the evaluation"))
def test_errors_of_the_evaluation(text: str, reason: str) -> None:
    program = compile_expression(text, NAMES)
    with pytest.raises(ExpressionError) as caught:
        program.run(QUERY)
    assert caught.value.message == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [*columns(TABLE, "errors of types"), *columns(TABLE, "errors of the syntax")],
)
def test_errors_before_any_query(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, NAMES)
    assert f"{caught.value.at}: {caught.value.message}" == reason


@pytest.mark.parametrize(("text", "type_"), columns(TABLE, "types"))
def test_type_of_result(text: str, type_: str) -> None:
    assert str(compile_expression(text, NAMES).type) == type_


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


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "trees"))
def test_tree(text: str, expected: str) -> None:
    assert shape(parse(text)) == expected


# --- evaluation ---


def test_variables() -> None:
    program = compile_expression("n * 2 > limit", {"n": INT, "limit": ANY})
    assert program.holds({"n": 3, "limit": 5})
    assert not program.holds({"n": 2, "limit": 5})
    with pytest.raises(ExpressionError, match="cannot compare string and int"):
        program.holds({"n": 2, "limit": "x"})
    assert not any(compile_expression(text, {}).holds({}) for text in ("1", "nil")), (
        "only true holds"
    )


def test_what_is_not_needed_is_not_evaluated() -> None:
    names = {"name": NAMES["name"]}
    for text, value in (
        ("true or name() == ''", True),
        ("false ? name() : 1", 1),
        ("1 ?? name()", 1),
    ):
        assert compile_expression(text, names).run({}) == value


# --- limits ---


def test_limits_that_are_met() -> None:
    parse("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1))
    parse("[" + "1," * 3000 + "]")
    assert compile_expression("1" + "+1" * MAX_OPERATORS, {}).run({}) == MAX_OPERATORS + 1
    program = compile_expression(f"count(1..{MAX_STEPS // 3}, # > 0)", {})
    assert [program.run({}), program.run({})] == [MAX_STEPS // 3] * 2, (
        "steps are for one evaluation"
    )
    assert apply_predicate("any", Scope({}), [True] * 60_000, None, None) is True, "it stops early"


def test_every_element_is_a_step() -> None:
    with pytest.raises(ExpressionError, match="more than 50000 steps"):
        apply_predicate("map", Scope({}), [0] * 50_001, lambda at: 0, None)


DEEP: list[object] = []
for _ in range(60):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("concat", [[1] * 60000, [1] * 60000], "concat makes more than 100000 elements"),
        ("flatten", [DEEP], "flatten: arrays are nested more than 50 deep"),
        ("flatten", [[[1] * 100001]], "flatten makes more than 100000 elements"),
        ("max", [DEEP], "max: arrays are nested more than 50 deep"),
    ],
)
def test_sizes(name: str, arguments: list[object], reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        BUILTINS[name].run(*arguments)
    assert caught.value.message == reason


# --- properties ---


@given(strategies.text(alphabet="1a.[](){}'\"#+-*/?:|,<>=! inotrue&;@$", max_size=30))
def test_any_text_gives_a_value_or_an_error(text: str) -> None:
    try:
        compile_expression(text, NAMES).run(QUERY)
    except ExpressionError as error:
        assert -1 <= error.at <= len(text)


@given(strategies.floats(allow_nan=False, allow_infinity=False))
def test_text_of_a_float_gives_it_back(value: float) -> None:
    assert float(float_to_text(value)) == value


@given(strategies.integers())
def test_wrap(value: int) -> None:
    assert wrap(value) == int.from_bytes((value % 2**64).to_bytes(8, "big"), "big", signed=True)


def test_a_name_means_one_thing() -> None:
    assert not BUILTINS.keys() & REFUSED
    assert not BUILTINS.keys() & PREDICATES.keys()


# --- in a Corefile, about a query ---


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "in line 3 of a Corefile"))
def test_in_a_corefile(text: str, expected: str) -> None:
    (line,) = directives(f"view a {{\n expr {text}\n}}")[0].lines
    try:
        found = read_expression(line, line.args, NAMES).text
    except CorefileError as error:
        found = str(error).removeprefix("Corefile:")
    assert found == expected


def test_what_they_say_of_a_query() -> None:
    edns = Edns(1232, do=True)
    request = make_request(
        "Web.Example.org.", "AAAA", qclass="CH", client="fe80::7%eth0", edns=edns, id=7
    )
    functions = functions_of(request)
    assert set(functions) == set(NAMES)
    found = {name: functions[name]() for name in functions if NAMES[name].fits(0)}
    assert " ".join(f"{name}={value}" for name, value in found.items()) == (
        "type=AAAA name=web.example.org. class=CH proto=udp size=44 client_ip=fe80::7 port=40000 id=7 opcode=0 do=True "
        "bufsize=1232 server_ip=127.0.0.1 server_port=53"
    )


@pytest.mark.parametrize(
    ("fields", "size"),
    [
        ({}, 512),
        ({"edns": Edns(100)}, 512),
        ({"edns": Edns(4096)}, 4096),
        ({"protocol": "tcp"}, 65535),
    ],
)
def test_bufsize(fields: dict[str, Edns], size: int) -> None:
    assert functions_of(make_request("a.", **fields))["bufsize"]() == size  # type: ignore[arg-type]  # fields by their names


def test_metadata() -> None:
    request = make_request("a.")
    known = request.replace(metadata={"a/b": lambda: "x"})
    found = [
        functions_of(each)["metadata"](label)
        for each in (request, known)
        for label in ("a/b", "a/c")
    ]
    assert found == ["", "", "x", ""]
