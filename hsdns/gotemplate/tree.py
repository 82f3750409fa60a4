"""Tree of a template; str() of a node is its text in Go's formatting.

Path: made by parser.py, read by evaluate.py; the text of a whole template is a label of metrics.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a template; `at` is its offset in characters, counted from 0."""

    at: int


@dataclass(frozen=True, slots=True)
class Text(Node):
    """Text outside of actions."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Dot(Node):
    """`.`, the current value."""

    def __str__(self) -> str:
        return "."


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A string, number, true, false or nil, with its source."""

    value: str | int | float | bool | None
    written: str

    def __str__(self) -> str:
        return self.written


@dataclass(frozen=True, slots=True)
class Field(Node):
    """`.A.B`, fields of dot."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`$a.B`."""

    name: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.name, *self.names))


@dataclass(frozen=True, slots=True)
class Chain(Node):
    """`(pipeline).A`."""

    holder: Pipeline
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"({self.holder})" + "".join(f".{name}" for name in self.names)


@dataclass(frozen=True, slots=True)
class Function(Node):
    """The name of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Command(Node):
    """A value or function, and its arguments."""

    operands: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(
            f"({operand})" if isinstance(operand, Pipeline) else str(operand)
            for operand in self.operands
        )


@dataclass(frozen=True, slots=True)
class Pipeline(Node):
    """`$a, $b := one | two`; `assigns` if it is `=`."""

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False

    def __str__(self) -> str:
        sign = " = " if self.assigns else " := "
        declared = ", ".join(self.variables) + sign if self.variables else ""
        return declared + " | ".join(map(str, self.commands))


@dataclass(frozen=True, slots=True)
class Nodes(Node):
    """A sequence of nodes."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))


@dataclass(frozen=True, slots=True)
class Action(Node):
    """`{{pipeline}}`."""

    pipeline: Pipeline

    def __str__(self) -> str:
        return f"{{{{{self.pipeline}}}}}"


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """`{{if}}`, `{{with}}` or `{{range}}`, with its `{{else}}`."""

    word: str
    pipeline: Pipeline
    body: Nodes
    otherwise: Nodes | None

    def __str__(self) -> str:
        otherwise = f"{{{{else}}}}{self.otherwise}" if self.otherwise is not None else ""
        return f"{{{{{self.word} {self.pipeline}}}}}{self.body}{otherwise}{{{{end}}}}"


@dataclass(frozen=True, slots=True)
class Jump(Node):
    """`{{break}}` or `{{continue}}`."""

    word: str

    def __str__(self) -> str:
        return f"{{{{{self.word}}}}}"


@dataclass(frozen=True, slots=True)
class Include(Node):
    """`{{template "name" pipeline}}`."""

    name: str
    pipeline: Pipeline | None

    def __str__(self) -> str:
        pipeline = f" {self.pipeline}" if self.pipeline is not None else ""
        return f'{{{{template "{self.name}"{pipeline}}}}}'
