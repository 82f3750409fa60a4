"""Compiler of expressions: syntax tree to closures.

Path: the last step of compilation; view and template call Program.run() for each query.
Source: expr-lang/expr 1.17 compiler and vm.
Rule 1: every node is compiled to a closure; evaluation does not visit the tree.
Rule 2: every element that a function visits is a step; more than MAX_STEPS of them are an error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hsdns.corefile.properties import compile_pattern
from hsdns.expression import tree
from hsdns.expression.builtins import (
    BUILTINS,
    Evaluate,
    Scope,
    apply_predicate,
    contains,
    equal,
    is_number,
    kind_of,
    less,
    member,
    wrap,
)
from hsdns.expression.check import Names, check
from hsdns.expression.parser import PREDICATES, parse
from hsdns.expression.tree import ExpressionError, Node, Type, type_of

_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "-": operator.sub,
    "*": operator.mul,
}


class Program(NamedTuple):
    """A compiled expression; `type` is the type of its result, as far as known."""

    type: Type
    text: str
    evaluate: Evaluate

    def run(self, values: Mapping[str, Any]) -> object:
        """Evaluate it with these variables and functions; raise ExpressionError."""
        try:
            return self.evaluate(Scope(values))
        except ExpressionError:
            raise
        except (ArithmeticError, TypeError, AttributeError, ValueError, RecursionError) as error:
            # The kind of a value of type `any` is known only now.
            raise ExpressionError(str(error)) from error

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether the result is true (not merely non-empty); raise ExpressionError."""
        return self.run(values) is True


def compile_expression(text: str, names: Names) -> Program:
    """Compile an expression over these variables and functions; raise ExpressionError."""
    node = parse(text)
    return Program(check(node, names), text, _Compiler(names).make(node))


class _Compiler:
    def __init__(self, names: Names) -> None:
        self._names = names

    def make(self, node: Node) -> Evaluate:
        """Compile a node."""
        match node:
            case tree.Literal(value=value):
                return lambda scope: value
            case tree.Identifier(name=name):
                return lambda scope: scope.lookup(name)
            case tree.Pointer(name=name):
                return lambda scope: scope.elements[-1][name]
            case tree.Unary(operator=word, operand=operand):
                return _unary(word, self.make(operand))
            case tree.Binary():
                return self._binary(node)
            case tree.Conditional():
                return self._conditional(node)
            case tree.Chain(link=link):
                return _chain(self.make(link))
            case tree.Member():
                return _member(self.make(node.holder), self.make(node.key), node.optional)
            case tree.Slice():
                return self._slice(node)
            case tree.Call():
                return self._call(node)
            case tree.Let():
                return _let(node.name, self.make(node.value), self.make(node.body))
            case tree.Sequence(parts=parts):
                made = [self.make(part) for part in parts]
                return lambda scope: [part(scope) for part in made][-1]
            case tree.Array(items=items):
                each = [self.make(item) for item in items]
                return lambda scope: [item(scope) for item in each]
            case tree.Map(pairs=pairs):
                return _map([(self.make(key), self.make(value)) for key, value in pairs])
        raise AssertionError(f"{node} is not a value by itself")

    def _binary(self, node: tree.Binary) -> Evaluate:
        left, right, word = self.make(node.left), self.make(node.right), node.operator
        match word:
            case "==":
                return lambda scope: equal(left(scope), right(scope))
            case "!=":
                return lambda scope: not equal(left(scope), right(scope))
            case "or" | "||":
                return lambda scope: _truth(left(scope)) or _truth(right(scope))
            case "and" | "&&":
                return lambda scope: _truth(left(scope)) and _truth(right(scope))
            case "<":
                return lambda scope: less(left(scope), right(scope))
            case ">":
                return lambda scope: _swapped_less(left(scope), right(scope))
            case "<=":
                return lambda scope: not _swapped_less(left(scope), right(scope))
            case ">=":
                return lambda scope: not less(left(scope), right(scope))
            case "in":
                return _in(left, right)
            case "??":
                return lambda scope: right(scope) if (found := left(scope)) is None else found
            case "contains":
                return lambda scope: _text(left(scope)).find(_text(right(scope))) >= 0
            case "startsWith":
                return lambda scope: _text(left(scope)).startswith(_text(right(scope)))
            case "endsWith":
                return lambda scope: _text(left(scope)).endswith(_text(right(scope)))
            case "matches":
                return _matches(left, right, node.right)
            case "..":
                return lambda scope: _range(left(scope), right(scope), scope)
        return lambda scope: _calculate(word, left(scope), right(scope), scope)

    def _conditional(self, node: tree.Conditional) -> Evaluate:
        condition, then = self.make(node.condition), self.make(node.then)
        otherwise = self.make(node.otherwise)
        return lambda scope: then(scope) if _truth(condition(scope)) else otherwise(scope)

    def _slice(self, node: tree.Slice) -> Evaluate:
        holder = self.make(node.holder)
        start = self.make(node.start) if node.start is not None else None
        end = self.make(node.end) if node.end is not None else None

        def evaluate(scope: Scope) -> object:
            found = holder(scope)
            if not isinstance(found, list | str):
                raise ExpressionError(f"cannot slice {kind_of(found)}", node.at)
            low = _bound(start(scope), len(found)) if start is not None else 0
            high = _bound(end(scope), len(found)) if end is not None else len(found)
            return found[min(low, high) : high]

        return evaluate

    def _call(self, node: tree.Call) -> Evaluate:
        name, arguments = node.name, node.arguments
        if name in self._names:
            given = [self.make(argument) for argument in arguments]
            return lambda scope: scope.lookup(name)(*[argument(scope) for argument in given])
        if name in PREDICATES:
            items = self.make(arguments[0])
            predicate = None
            if len(arguments) > 1:
                second = arguments[1]
                assert isinstance(second, tree.Predicate), "ensured by the parser"
                predicate = self.make(second.body)
            third = self.make(arguments[2]) if len(arguments) > 2 else None
            return lambda scope: apply_predicate(name, scope, items(scope), predicate, third)
        builtin = BUILTINS[name]
        made = [self.make(argument) for argument in arguments]

        def evaluate(scope: Scope) -> object:
            values = [argument(scope) for argument in made]
            for index, value in enumerate(values):
                kinds = builtin.signature.kinds(index)
                if not type_of(value).may_be(*kinds):
                    found = kind_of(value)
                    raise ExpressionError(
                        f"{name} takes {' or '.join(kinds)}, found {found}", node.at
                    )
                scope.step(len(value) // 10 if isinstance(value, list | str | dict) else 0)
            return builtin.run(*values)

        return evaluate


def _truth(value: object) -> bool:
    """Convert the value of a condition: nil is false; raise ExpressionError if it is not bool."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ExpressionError(f"a condition must be bool, found {kind_of(value)}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ExpressionError(f"expected a string, found {kind_of(value)}")
    return value


def _swapped_less(one: object, other: object) -> bool:
    return less(other, one)


def _in(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> object:
        found, container = left(scope), right(scope)
        scope.step(len(container) if isinstance(container, list) else 0)
        return contains(container, found)

    return evaluate


def _unary(word: str, operand: Evaluate) -> Evaluate:
    if word in ("not", "!"):
        return lambda scope: not _truth(operand(scope))

    def evaluate(scope: Scope) -> object:
        found: Any = operand(scope)
        if not is_number(found):
            raise ExpressionError(f'"{word}" does not take {kind_of(found)}')
        if word == "+":
            return found
        return wrap(-found) if isinstance(found, int) else -found

    return evaluate


def _calculate(word: str, left: Any, right: Any, scope: Scope) -> object:
    if word == "+" and isinstance(left, str) and isinstance(right, str):
        scope.step((len(left) + len(right)) // 10)
        return left + right
    if not (is_number(left) and is_number(right)):
        raise ExpressionError(f'"{word}" does not take {kind_of(left)} and {kind_of(right)}')
    if word == "/":
        return _divide(float(left), float(right))
    if word in ("**", "^"):
        return _power(float(left), float(right))
    if word == "%":
        if not (isinstance(left, int) and isinstance(right, int)):
            raise ExpressionError('"%" takes whole numbers')
        if right == 0:
            raise ExpressionError("division by zero")
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    found = left + right if word == "+" else _ARITHMETIC[word](left, right)
    return wrap(found) if isinstance(found, int) else found


def _divide(left: float, right: float) -> float:
    """Divide as in IEEE 754, where Python raises for zero."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _power(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except OverflowError:
        return math.inf if left > 0 or right % 2 == 0 else -math.inf
    except ValueError:
        return math.inf if left == 0 else math.nan


def _range(left: Any, right: Any, scope: Scope) -> list[int]:
    if not (isinstance(left, int) and isinstance(right, int)):
        raise ExpressionError(f'".." does not take {kind_of(left)} and {kind_of(right)}')
    scope.step(max(0, right - left + 1))
    return list(range(left, right + 1))


def _bound(value: Any, size: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ExpressionError(f"a bound must be a whole number, found {kind_of(value)}")
    return max(0, value + size if value < 0 else min(value, size))


def _matches(left: Evaluate, right: Evaluate, node: Node) -> Evaluate:
    if isinstance(node, tree.Literal):
        pattern = compile_pattern(str(node.value))

        def evaluate(scope: Scope) -> object:
            found = left(scope)
            return found is not None and pattern.search(_text(found)) is not None

        return evaluate

    def evaluate_both(scope: Scope) -> object:
        found, expression = left(scope), right(scope)
        if found is None or expression is None:
            return False
        scope.step(1000)  # the cost of compiling a pattern
        return compile_pattern(_text(expression)).search(_text(found)) is not None

    return evaluate_both


class _ChainEnded(Exception):
    """The operand of a `?.` is nil."""


def _chain(link: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> object:
        try:
            return link(scope)
        except _ChainEnded:
            return None

    return evaluate


def _member(holder: Evaluate, key: Evaluate, optional: bool) -> Evaluate:
    def evaluate(scope: Scope) -> object:
        found = holder(scope)
        if found is None and optional:
            raise _ChainEnded
        return member(found, key(scope))

    return evaluate


def _let(name: str, value: Evaluate, body: Evaluate) -> Evaluate:
    def evaluate(scope: Scope) -> object:
        scope.lets[name] = value(scope)
        return body(scope)

    return evaluate


def _map(pairs: list[tuple[Evaluate, Evaluate]]) -> Evaluate:
    def evaluate(scope: Scope) -> object:
        made: dict[Any, object] = {}
        for key, value in pairs:
            found = key(scope)
            if not isinstance(found, str):
                raise ExpressionError(f"a key of a map must be a string, found {kind_of(found)}")
            made[found] = value(scope)
        return made

    return evaluate
