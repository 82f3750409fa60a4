"""Kinds of value in expressions, as far as they are known before a query comes.

Path: check.py works them out; builtins.py and queries.py declare those of their functions.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Type(NamedTuple):
    """A kind: bool, int, float, string, array, map, nil or any; `element` is what an array holds."""

    kind: str
    element: Type | None = None

    def __str__(self) -> str:
        return f"array of {self.element}" if self.element is not None else self.kind

    @property
    def is_number(self) -> bool:
        """An int or a float."""
        return self.kind in ("int", "float")

    def may_be(self, *kinds: str) -> bool:
        """Whether a value of this type can be one of these kinds; "number" is int and float."""
        return (
            self.kind == "any"
            or self.kind in kinds
            or (self.is_number and "number" in kinds)
            or "any" in kinds
        )


ANY: Final = Type("any")
BOOL: Final = Type("bool")
INT: Final = Type("int")
FLOAT: Final = Type("float")
STRING: Final = Type("string")
ARRAY: Final = Type("array", ANY)
MAP: Final = Type("map")
NIL: Final = Type("nil")


class Signature(NamedTuple):
    """What a function takes and gives; arguments after the first `required` may be left out."""

    arguments: tuple[tuple[str, ...], ...]  # the kinds that each may be
    result: Type
    required: int
    variadic: bool = False  # whether the last one may stand several times

    def fits(self, count: int) -> bool:
        """Whether so many arguments are right."""
        return self.required <= count and (self.variadic or count <= len(self.arguments))

    def kinds(self, index: int) -> tuple[str, ...]:
        """The kinds that the argument at a place may be."""
        return self.arguments[min(index, len(self.arguments) - 1)]


def signature(arguments: str, result: Type) -> Signature:
    """Read `string int|float [string] ...`: kinds, in brackets what may be left out, dots where the last repeats."""
    words = arguments.split()
    variadic = words[-1:] == ["..."]
    if variadic:
        words.pop()
    required = sum(not word.startswith("[") for word in words)
    return Signature(
        tuple(tuple(word.strip("[]").split("|")) for word in words), result, required, variadic
    )


def type_of(value: object) -> Type:
    """The type of a value; an array of values of one type says so."""
    if value is None:
        return NIL
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT
    if isinstance(value, float):
        return FLOAT
    if isinstance(value, str):
        return STRING
    if isinstance(value, list):
        return ARRAY
    if isinstance(value, dict):
        return MAP
    return ANY
