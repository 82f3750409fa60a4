"""Rendering of a template with a query's data.

Path: the last step; plugins/template.py calls Template.render() for each record of a reply.
Source: Go's text/template/exec.go.
Rule 1: an error ends the rendering, and its output is discarded.
Rule 2: the limits are MAX_STEPS nodes, MAX_OUTPUT characters and MAX_ARGUMENTS_LEN characters of arguments.
"""

from __future__ import annotations

from typing import Any, Final, Self

from hsdns.gotemplate import tree
from hsdns.gotemplate.functions import (
    FUNCTIONS,
    LAZY,
    MISSING,
    Method,
    Missing,
    field_of,
    is_true,
    kind_of,
    to_text,
)
from hsdns.gotemplate.parser import Parsed, parse
from hsdns.gotemplate.tree import Node, TemplateError

MAX_STEPS: Final = 10_000
MAX_OUTPUT: Final = 65_536
# Characters of all arguments of functions: a text that is doubled 30 times has a gigabyte.
MAX_ARGUMENTS_LEN: Final = 1_000_000
MAX_CALLS: Final = 40  # nested templates
_NOTHING: Final = object()  # the first command of a pipeline gets no value


class Template:
    """A parsed template; str() of it is its text in Go's formatting."""

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._text = str(parsed.root)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse a template; raise TemplateError."""
        return cls(parse(text, {*FUNCTIONS, *LAZY}))

    def __str__(self) -> str:
        return self._text

    def render(self, data: object) -> str:
        """Execute the template with `data`; raise TemplateError."""
        run = _Run(self._parsed.defined, data)
        try:
            run.walk(self._parsed.root, data)
        except RecursionError:
            raise TemplateError("the template is nested too deeply") from None
        return "".join(run.parts)


class _Jump(Exception):
    """A `break` or `continue`, propagated to its range."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class _Run:
    """One rendering."""

    def __init__(self, defined: dict[str, tree.Nodes], data: object) -> None:
        self.parts: list[str] = []
        self._defined = defined
        self._variables: list[tuple[str, Any]] = [("$", data)]
        self._steps = MAX_STEPS
        self._room = MAX_OUTPUT
        self._arguments_left = MAX_ARGUMENTS_LEN
        self._calls = 0

    def walk(self, node: Node, dot: Any) -> None:
        """Render a node with a value of dot."""
        self._steps -= 1
        if self._steps < 0:
            raise TemplateError(f"the template takes more than {MAX_STEPS} steps", node.at)
        match node:
            case tree.Nodes(nodes=nodes):
                for each in nodes:
                    self.walk(each, dot)
            case tree.Text(text=text):
                self._write(text, node.at)
            case tree.Action(pipeline=pipeline):
                value = self._pipeline(pipeline, dot)
                if not pipeline.variables:
                    if isinstance(value, Method):
                        raise TemplateError("a method cannot be printed", node.at)
                    self._write("<no value>" if value is None else to_text(value), node.at)
            case tree.Branch(word="range"):
                self._range(node, dot)
            case tree.Branch():
                self._branch(node, dot)
            case tree.Jump(word=word):
                raise _Jump(word)
            case tree.Include():
                self._include(node, dot)

    def _write(self, text: str, at: int) -> None:
        self._room -= len(text)
        if self._room < 0:
            raise TemplateError(f"the template makes more than {MAX_OUTPUT} characters", at)
        self.parts.append(text)

    def _branch(self, node: tree.Branch, dot: Any) -> None:
        mark = len(self._variables)
        value = self._pipeline(node.pipeline, dot)
        if is_true(value):
            self.walk(node.body, value if node.word == "with" else dot)
        elif node.otherwise is not None:
            self.walk(node.otherwise, dot)
        del self._variables[mark:]

    def _range(self, node: tree.Branch, dot: Any) -> None:
        mark = len(self._variables)
        names = node.pipeline.variables
        value = self._pipeline(node.pipeline, dot, declare=not names)
        if len(names) == 2 and isinstance(value, int):
            raise TemplateError("a range over a number takes one variable", node.at)
        pairs = _pairs(value, node.at)
        if not pairs and node.otherwise is not None:
            self.walk(node.otherwise, dot)
        for key, item in pairs:
            self._steps -= 1
            if node.pipeline.assigns:
                for name, found in zip(
                    names, (key, item) if len(names) == 2 else (item,), strict=True
                ):
                    self._assign(name, found)
            elif names:
                self._variables.append((names[-1], item))
                if len(names) == 2:
                    self._variables.append((names[0], key))
            try:
                self.walk(node.body, item)
            except _Jump as jump:
                if jump.word == "break":
                    break
            finally:
                del self._variables[mark:]
        del self._variables[mark:]

    def _include(self, node: tree.Include, dot: Any) -> None:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise TemplateError(f"templates include each other more than {MAX_CALLS} deep", node.at)
        inside = self._pipeline(node.pipeline, dot) if node.pipeline is not None else None
        outer, self._variables = self._variables, [("$", inside)]
        self.walk(self._defined[node.name], inside)
        self._variables = outer
        self._calls -= 1

    def _assign(self, name: str, value: Any) -> None:
        for at in range(len(self._variables) - 1, -1, -1):
            if self._variables[at][0] == name:
                self._variables[at] = (name, value)
                return
        raise AssertionError("ensured by the parser")

    def _lookup(self, name: str) -> Any:
        return next(value for known, value in reversed(self._variables) if known == name)

    def _pipeline(self, pipeline: tree.Pipeline, dot: Any, *, declare: bool = True) -> Any:
        value: Any = _NOTHING
        for command in pipeline.commands:
            value = self._command(command, dot, value)
        for name in pipeline.variables if declare else ():
            if pipeline.assigns:
                self._assign(name, value)
            else:
                self._variables.append((name, value))
        return value

    def _command(self, command: tree.Command, dot: Any, final: Any) -> Any:
        self._steps -= 1
        first, *others = command.operands
        if isinstance(first, tree.Function):
            return self._function(first, others, dot, final)
        if isinstance(first, tree.Constant):
            if first.value is None:
                raise TemplateError("nil is not a command", first.at)
            self._refuse_arguments(first, others, final)
            return first.value
        value = self._value(first, dot)
        if isinstance(value, Method):
            return _invoke(str(first), value, self._arguments(others, dot, final), first.at)
        self._refuse_arguments(first, others, final)
        return value

    @staticmethod
    def _refuse_arguments(first: Node, others: list[Node], final: Any) -> None:
        if others or final is not _NOTHING:
            raise TemplateError(
                f"{first} takes no arguments, because it is not a function", first.at
            )

    def _function(self, node: tree.Function, others: list[Node], dot: Any, final: Any) -> Any:
        if node.name in LAZY:
            return self._lazy(node, others, dot, final)
        fewest, most, call = FUNCTIONS[node.name]
        arguments = self._arguments(others, dot, final)
        self._arguments_left -= sum(len(each) for each in arguments if isinstance(each, str))
        if self._arguments_left < 0:
            raise TemplateError(
                f"the template processes more than {MAX_ARGUMENTS_LEN} characters", node.at
            )
        return _call(node.name, fewest, most, call, arguments, node.at)

    def _lazy(self, node: tree.Function, others: list[Node], dot: Any, final: Any) -> Any:
        """Evaluate `and` or `or`: the first argument that is empty or not empty, respectively, else the last one."""
        if not others and final is _NOTHING:
            raise TemplateError(f"{node.name} takes 1 or more arguments, found 0", node.at)
        value: Any = None
        for other in others:
            value = self._argument(other, dot)
            if is_true(value) == (node.name == "or"):
                return value
        return value if final is _NOTHING else final

    def _arguments(self, nodes: list[Node], dot: Any, final: Any) -> list[Any]:
        """Return the values of arguments; the value of a pipeline is the last one."""
        return [
            *(self._argument(node, dot) for node in nodes),
            *([final] if final is not _NOTHING else []),
        ]

    def _argument(self, node: Node, dot: Any) -> Any:
        """Return the value of an argument; a function as argument is called."""
        if isinstance(node, tree.Constant):
            return node.value
        if isinstance(node, tree.Function):
            return self._function(node, [], dot, _NOTHING)
        value = self._value(node, dot)
        if isinstance(value, Method):
            return _invoke(str(node), value, [], node.at)
        return None if isinstance(value, Missing) else value

    def _value(self, node: Node, dot: Any) -> Any:
        match node:
            case tree.Dot():
                return dot
            case tree.Field(names=names):
                return _fields(dot, names, node.at)
            case tree.Variable(name=name, names=names):
                return _fields(self._lookup(name), names, node.at)
            case tree.Pipeline():
                return self._pipeline(node, dot)
            case tree.Chain(holder=holder, names=names):
                return _fields(self._pipeline(holder, dot), names, node.at)
        raise AssertionError(f"{node} is not a value")


def _fields(value: Any, names: tuple[str, ...], at: int) -> Any:
    for name in names:
        if value is MISSING:
            return MISSING
        if value is None:
            raise TemplateError(f"there is no field {name} in nil", at)
        if isinstance(value, Method):
            value = _invoke(name, value, [], at)
        try:
            value = field_of(value, name)
        except TemplateError as error:
            raise TemplateError(error.message, at) from None
    return value


def _pairs(value: Any, at: int) -> list[tuple[Any, Any]]:
    """Return what a range iterates over: indices and elements, or keys and values sorted by key."""
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, dict):
        return sorted(value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return [(number, number) for number in range(min(value, MAX_STEPS + 1))]
    if value is None or value is MISSING:
        return []
    raise TemplateError(f"cannot range over {kind_of(value)}", at)


def _invoke(name: str, method: Method, arguments: list[Any], at: int) -> Any:
    return _call(name, method.arguments, method.arguments, method.call, arguments, at)


def _call(
    name: str, fewest: int, most: int | None, call: Any, arguments: list[Any], at: int
) -> Any:
    count = len(arguments)
    if count < fewest or (most is not None and count > most):
        wanted = f"{fewest}" if fewest == most else f"{fewest} or more"
        raise TemplateError(f"{name} takes {wanted} arguments, found {count}", at)
    try:
        return call(*arguments)
    except TemplateError as error:
        raise TemplateError(error.message, error.at if error.at >= 0 else at) from None
    except (TypeError, ValueError) as error:  # such as an unhashable key
        raise TemplateError(f"{name}: {error}", at) from None
