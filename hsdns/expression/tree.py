"""Syntax tree of an expression, the types of its values as far as they are known before evaluation, and its error.

Path: made by parser.py, read by compiler.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from hsdns.expression.reading import LanguageError


class ExpressionError(LanguageError):
    """An error of an expression."""


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


_KINDS: Final[tuple[tuple[type, Type], ...]] = (
    (bool, BOOL),
    (int, INT),
    (float, FLOAT),
    (str, STRING),
    (list, ARRAY),
    (dict, MAP),
)


def type_of(value: object) -> Type:
    """Return the type of a value, without that of an array's elements."""
    return next((type_ for kind, type_ in _KINDS if isinstance(value, kind)), NIL)


def kind_of(value: object) -> str:
    """Return the name of a value's kind."""
    return type_of(value).kind


class Node(msgspec.Struct, frozen=True):
    """A part of an expression; `at` is its offset in characters, counted from 0."""

    at: int


class Literal(Node, frozen=True):
    """A number, a string, true, false or nil."""

    value: object


class Identifier(Node, frozen=True):
    """The name of a variable or function."""

    name: str


class Pointer(Node, frozen=True):
    """`#`, the current element of a predicate; `#acc` and `#index` within reduce()."""

    name: str


class Unary(Node, frozen=True):
    """A prefix operator and its operand."""

    operator: str
    operand: Node


class Binary(Node, frozen=True):
    """A binary operator and its operands."""

    operator: str
    left: Node
    right: Node


class Conditional(Node, frozen=True):
    """`a ? b : c`, and `if a { b } else { c }`."""

    condition: Node
    then: Node
    otherwise: Node


class Member(Node, frozen=True):
    """`a.b`, `a[b]`; with `optional` (`a?.b`) nil if a is nil."""

    holder: Node
    key: Node
    optional: bool


class Chain(Node, frozen=True):
    """All of `a?.b.c`, which is nil as soon as an optional member's operand is nil."""

    link: Node


class Slice(Node, frozen=True):
    """`a[b:c]`."""

    holder: Node
    start: Node | None
    end: Node | None


class Call(Node, frozen=True):
    """A function and its arguments."""

    name: str
    arguments: tuple[Node, ...]


class Predicate(Node, frozen=True):
    """The expression evaluated for each element of an array."""

    body: Node


class Let(Node, frozen=True):
    """`let name = value; body`."""

    name: str
    value: Node
    body: Node


class Sequence(Node, frozen=True):
    """`a; b`, with the value of the last one."""

    parts: tuple[Node, ...]


class Array(Node, frozen=True):
    """`[a, b]`."""

    items: tuple[Node, ...]


class Map(Node, frozen=True):
    """`{a: b}`."""

    pairs: tuple[tuple[Node, Node], ...]
