"""Tree of a template and its error; str() of a node is its text in Go's formatting.

Path: made by parser.py, read by evaluate.py; the text of a whole template is a label of metrics.
"""

from __future__ import annotations

import msgspec

from hsdns.expression.reading import LanguageError


class TemplateError(LanguageError):
    """An error of a template."""


class Node(msgspec.Struct, frozen=True):
    """A part of a template; `at` is its offset in characters, counted from 0."""

    at: int


class Text(Node, frozen=True):
    """Text outside of actions."""

    text: str

    def __str__(self) -> str:
        return self.text


class Dot(Node, frozen=True):
    """`.`, the current value."""

    def __str__(self) -> str:
        return "."


class Constant(Node, frozen=True):
    """A string, number, true, false or nil, with its source."""

    value: str | int | float | bool | None
    written: str

    def __str__(self) -> str:
        return self.written


class Field(Node, frozen=True):
    """`.A.B`, fields of dot."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(f".{name}" for name in self.names)


class Variable(Node, frozen=True):
    """`$a.B`."""

    name: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.name, *self.names))


class Chain(Node, frozen=True):
    """`(pipeline).A`."""

    holder: Pipeline
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"({self.holder})" + "".join(f".{name}" for name in self.names)


class Function(Node, frozen=True):
    """The name of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


class Command(Node, frozen=True):
    """A value or function, and its arguments."""

    operands: tuple[Node, ...]

    def __str__(self) -> str:
        return " ".join(
            f"({operand})" if isinstance(operand, Pipeline) else str(operand)
            for operand in self.operands
        )


class Pipeline(Node, frozen=True):
    """`$a, $b := one | two`; `assigns` if it is `=`."""

    commands: tuple[Command, ...]
    variables: tuple[str, ...] = ()
    assigns: bool = False

    def __str__(self) -> str:
        sign = " = " if self.assigns else " := "
        declared = ", ".join(self.variables) + sign if self.variables else ""
        return declared + " | ".join(map(str, self.commands))


class Nodes(Node, frozen=True):
    """A sequence of nodes."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))


class Action(Node, frozen=True):
    """`{{pipeline}}`."""

    pipeline: Pipeline

    def __str__(self) -> str:
        return f"{{{{{self.pipeline}}}}}"


class Branch(Node, frozen=True):
    """`{{if}}`, `{{with}}` or `{{range}}`, with its `{{else}}`."""

    word: str
    pipeline: Pipeline
    body: Nodes
    otherwise: Nodes | None

    def __str__(self) -> str:
        otherwise = f"{{{{else}}}}{self.otherwise}" if self.otherwise is not None else ""
        return f"{{{{{self.word} {self.pipeline}}}}}{self.body}{otherwise}{{{{end}}}}"


class Jump(Node, frozen=True):
    """`{{break}}` or `{{continue}}`."""

    word: str

    def __str__(self) -> str:
        return f"{{{{{self.word}}}}}"


class Include(Node, frozen=True):
    """`{{template "name" pipeline}}`."""

    name: str
    pipeline: Pipeline | None

    def __str__(self) -> str:
        pipeline = f" {self.pipeline}" if self.pipeline is not None else ""
        return f'{{{{template "{self.name}"{pipeline}}}}}'
