from __future__ import annotations

import pytest

from hsdns.expression import tree
from hsdns.expression.tree import (
    ANY,
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    NIL,
    STRING,
    ExpressionError,
    Type,
    signature,
    type_of,
)


def test_nodes_are_values() -> None:
    one = tree.Binary(1, "+", tree.Literal(0, 1), tree.Identifier(2, "a"))
    assert one == tree.Binary(1, "+", tree.Literal(0, 1), tree.Identifier(2, "a"))
    with pytest.raises(AttributeError, match="immutable"):
        one.at = 3  # type: ignore[misc]  # what is tested


def test_says_what_and_where() -> None:
    error = ExpressionError("what", 3)
    assert (str(error), error.message, error.at) == ("what", "what", 3)
    assert ExpressionError("what").at == -1


@pytest.mark.parametrize(
    ("found", "kinds", "expected"),
    [
        (INT, ("int",), True),
        (INT, ("number",), True),
        (FLOAT, ("number",), True),
        (BOOL, ("number",), False),
        (STRING, ("int", "string"), True),
        (NIL, ("any",), True),
        (ANY, ("bool",), True),
        (ARRAY, ("map",), False),
    ],
)
def test_may_be(found: Type, kinds: tuple[str, ...], expected: bool) -> None:
    assert found.may_be(*kinds) is expected


@pytest.mark.parametrize(
    ("text", "counts", "second"),
    [
        ("", [0], None),
        ("string", [1], None),
        ("string int|float", [2], ("int", "float")),
        ("string [int]", [1, 2], ("int",)),
        ("array ...", [1, 2, 3, 4], ("array",)),
    ],
)
def test_signature(text: str, counts: list[int], second: tuple[str, ...] | None) -> None:
    found = signature(text, INT)
    assert [count for count in range(5) if found.fits(count)] == counts
    if second is not None:
        assert found.kinds(1) == second


def test_words() -> None:
    assert [str(type_of(value)) for value in (None, True, 1, 1.0, "a", [1], {}, object())] == [
        "nil",
        "bool",
        "int",
        "float",
        "string",
        "array of any",
        "map",
        "any",
    ]
