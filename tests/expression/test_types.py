from __future__ import annotations

import pytest

from hsdns.expression.tree import (
    ANY,
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    NIL,
    STRING,
    Type,
    signature,
    type_of,
)


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
