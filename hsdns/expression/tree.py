"""What an expression consists of; every node knows where it stands in the text.

Path: made by parser.py, read by check.py and evaluate.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """Part of an expression; `at` counts characters from 0."""

    at: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, a string, true, false or nil."""

    value: object


@dataclass(frozen=True, slots=True)
class Identifier(Node):
    """A name: of a variable or, before a bracket, of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Pointer(Node):
    """`#`, the element that a predicate looks at; `#acc` and `#index` within reduce()."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """An operator before its operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """An operator between its operands."""

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
    """`a.b`, `a[b]`; with `optional` (`a?.b`) nil where a is nil."""

    holder: Node
    key: Node
    optional: bool


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """The whole of `a?.b.c`: what is nil in it ends it."""

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
    """What is evaluated for every element of an array."""

    body: Node


@dataclass(frozen=True, slots=True)
class Let(Node):
    """`let name = value; body`."""

    name: str
    value: Node
    body: Node


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """`a; b`: the value of the last one."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Array(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Map(Node):
    """`{a: b}`."""

    pairs: tuple[tuple[Node, Node], ...]
