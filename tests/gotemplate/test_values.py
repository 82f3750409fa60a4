from __future__ import annotations

import pytest

from hsdns.gotemplate.functions import (
    MISSING,
    Method,
    Record,
    StringMap,
    field_of,
    is_true,
    kind_of,
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
