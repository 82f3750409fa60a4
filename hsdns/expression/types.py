"""Types of values in expressions, as far as they are known before evaluation.

Path: check.py infers them; builtins.py and queries.py declare those of their functions.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Type(NamedTuple):
    """A kind (bool, int, float, string, array, map, nil or any); `element` is the type of an array's elements."""

    kind: str
    element: Type | None = None

    def __str__(self) -> str:
        return f"array of {self.element}" if self.element is not None else self.kind

    @property
    def is_number(self) -> bool:
        """Whether it is int or float."""
        return self.kind in ("int", "float")

    def may_be(self, *kinds: str) -> bool:
        """Whether a value of this type can have one of these kinds; "number" means int and float."""
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
    """The types of a function's arguments and result; arguments after the first `required` are optional."""

    arguments: tuple[tuple[str, ...], ...]  # the kinds that each accepts
    result: Type
    required: int
    variadic: bool = False  # whether the last one may be repeated

    def fits(self, count: int) -> bool:
        """Whether this number of arguments is valid."""
        return self.required <= count and (self.variadic or count <= len(self.arguments))

    def kinds(self, index: int) -> tuple[str, ...]:
        """Return the kinds that an argument accepts."""
        return self.arguments[min(index, len(self.arguments) - 1)]


def signature(arguments: str, result: Type) -> Signature:
    """Parse `string int|float [string] ...`: kinds, optional arguments in brackets, dots if the last one repeats."""
    words = arguments.split()
    variadic = words[-1:] == ["..."]
    if variadic:
        words.pop()
    required = sum(not word.startswith("[") for word in words)
    return Signature(
        tuple(tuple(word.strip("[]").split("|")) for word in words), result, required, variadic
    )


def type_of(value: object) -> Type:
    """Return the type of a value; of an array with its element type if all elements have the same."""
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
