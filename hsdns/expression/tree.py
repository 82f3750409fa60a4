"""Syntax tree of an expression.

Path: made by parser.py, read by check.py and evaluate.py.
"""

from __future__ import annotations

import msgspec


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
