"""Syntax tree of an expression.

Path: made by parser.py, read by check.py and evaluate.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; `at` is its offset in characters, counted from 0."""

    at: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, a string, true, false or nil."""

    value: object


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """The name of a variable or function."""

    name: str


@dataclass(frozen=True, slots=True)
class Pointer(Node):
    """`#`, the current element of a predicate; `#acc` and `#index` within reduce()."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """A prefix operator and its operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """A binary operator and its operands."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`a ? b : c`, and `if a { b } else { c }`."""

    condition: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`a.b`, `a[b]`; with `optional` (`a?.b`) nil if a is nil."""

    holder: Node
    key: Node
    optional: bool


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """All of `a?.b.c`, which is nil as soon as an optional member's operand is nil."""

    link: Node


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """`a[b:c]`."""

    holder: Node
    start: Node | None
    end: Node | None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function and its arguments."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Predicate(Node):
    """The expression evaluated for each element of an array."""

    body: Node


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`let name = value; body`."""

    name: str
    value: Node
    body: Node


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """`a; b`, with the value of the last one."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Array(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Map(Node):
    """`{a: b}`."""

    pairs: tuple[tuple[Node, Node], ...]
