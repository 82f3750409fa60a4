"""Type checker and compiler of expressions: a syntax tree to a typed closure.

Path: the last step of compilation; view and template call Program.run() for each query.
Source: expr-lang/expr 1.17 checker/checker.go, compiler and vm.
Rule 1: type errors are found before any query.  `any` matches every type; a member of a map is `any`, so its use is
        checked during evaluation.
Rule 2: every node is compiled to a closure; evaluation does not visit the tree.
Rule 3: every element that a function visits is a step; more than MAX_STEPS of them are an error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from hsdns.corefile.properties import compile_pattern
from hsdns.corefile.tree import did_you_mean
from hsdns.expression import tree
from hsdns.expression.builtins import (
    BUILTINS,
    REFUSED,
    Evaluate,
    Scope,
    apply_predicate,
    contains,
    equal,
    is_number,
    less,
    member,
    wrap,
)
from hsdns.expression.parser import PREDICATES, parse
from hsdns.expression.tree import (
    ANY,
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    MAP,
    NIL,
    STRING,
    ExpressionError,
    Node,
    Signature,
    Type,
    kind_of,
    type_of,
)

Names = Mapping[str, Type | Signature]
_BOOLEAN_RESULT: Final = frozenset({"all", "none", "any", "one"})
_WITH_CONDITION: Final = frozenset(
    {"filter", "find", "findLast", "findIndex", "findLastIndex", "count"}
)

# The kinds of which both operands have one, and the type of the result, None for the wider one of both.
_OPERANDS: Final[dict[str, tuple[str, Type | None]]] = {
    **dict.fromkeys(("or", "||", "and", "&&"), ("bool", BOOL)),
    **dict.fromkeys(("<", ">", "<=", ">="), ("number string", BOOL)),
    **dict.fromkeys(("matches", "contains", "startsWith", "endsWith"), ("string", BOOL)),
    "+": ("number string", None),
    **dict.fromkeys(("-", "*"), ("number", None)),
    **dict.fromkeys(("/", "**", "^"), ("number", FLOAT)),
    "%": ("int", INT),
    "..": ("int", Type("array", INT)),
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
    code = _Compiler(names).make(parse(text))
    return Program(code.type, text, code.run)


class _Code(NamedTuple):
    """A compiled node."""

    type: Type
    run: Evaluate


class _Compiler:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._lets: dict[str, Type] = {}
        self._elements: list[dict[str, Type]] = []  # types of # and #name, innermost last

    def make(self, node: Node) -> _Code:
        """Compile a node."""
        match node:
            case tree.Literal(value=value):
                return _Code(type_of(value), lambda scope: value)
            case tree.Identifier(name=name):
                return _Code(self._type_of_name(node), lambda scope: scope.lookup(name))
            case tree.Pointer(name=name):
                found = self._elements[-1].get(name)
                if found is None:
                    raise ExpressionError(f'"#{name}" is not known', node.at)
                return _Code(found, lambda scope: scope.elements[-1][name])
            case tree.Unary():
                return self._unary(node)
            case tree.Binary():
                return self._binary(node)
            case tree.Conditional():
                return self._conditional(node)
            case tree.Chain(link=link):
                return _Code(ANY, _chain(self.make(link).run))
            case tree.Member():
                return self._member(node)
            case tree.Slice():
                return self._slice(node)
            case tree.Call():
                return self._call(node)
            case tree.Let():
                return self._let(node)
            case tree.Sequence(parts=parts):
                made = [self.make(part) for part in parts]
                return _Code(made[-1].type, lambda scope: [part.run(scope) for part in made][-1])
            case tree.Array(items=items):
                each = [self.make(item) for item in items]
                types = {item.type for item in each}
                type_ = Type("array", types.pop()) if len(types) == 1 else ARRAY
                return _Code(type_, lambda scope: [item.run(scope) for item in each])
            case tree.Map(pairs=pairs):
                return _Code(
                    MAP, _map([(self.make(key).run, self.make(value).run) for key, value in pairs])
                )
        raise AssertionError(f"{node} is not a value by itself")

    def _type_of_name(self, node: tree.Identifier) -> Type:
        name = node.name
        if name in self._lets:
            return self._lets[name]
        found = self._names.get(name)
        if isinstance(found, Type):
            return found
        if found is not None or name in BUILTINS or name in PREDICATES:
            raise ExpressionError(f"{name} is a function; write {name}()", node.at)
        raise ExpressionError(f'"{name}" is not known{self._did_you_mean(name)}', node.at)

    def _did_you_mean(self, name: str) -> str:
        return did_you_mean(name, {*self._lets, *self._names, *BUILTINS, *PREDICATES})

    def _unary(self, node: tree.Unary) -> _Code:
        word, (type_, operand) = node.operator, self.make(node.operand)
        if not type_.may_be("bool" if word in ("not", "!") else "number"):
            raise ExpressionError(f'"{word}" does not take {type_}', node.at)
        if word in ("not", "!"):
            return _Code(BOOL, lambda scope: not _truth(operand(scope)))

        def evaluate(scope: Scope) -> object:
            found: Any = operand(scope)
            if not is_number(found):
                raise ExpressionError(f'"{word}" does not take {kind_of(found)}')
            if word == "+":
                return found
            return wrap(-found) if isinstance(found, int) else -found

        return _Code(type_, evaluate)

    def _binary(self, node: tree.Binary) -> _Code:
        word, one, other = node.operator, self.make(node.left), self.make(node.right)
        type_ = _type_of_result(word, one.type, other.type)
        if type_ is None:
            raise ExpressionError(f'"{word}" does not take {one.type} and {other.type}', node.at)
        return _Code(type_, _operation(word, one.run, other.run, node.right))

    def _conditional(self, node: tree.Conditional) -> _Code:
        condition = self.make(node.condition)
        if not condition.type.may_be("bool"):
            raise ExpressionError(
                f"a condition must be bool, found {condition.type}", node.condition.at
            )
        one, other = self.make(node.then), self.make(node.otherwise)
        type_ = one.type if one.type == other.type else ANY
        if NIL in (one.type, other.type):
            type_ = other.type if one.type == NIL else one.type
        test, then, otherwise = condition.run, one.run, other.run
        return _Code(type_, lambda scope: then(scope) if _truth(test(scope)) else otherwise(scope))

    def _member(self, node: tree.Member) -> _Code:
        (holder, find_holder), (key, find_key) = self.make(node.holder), self.make(node.key)
        if holder.kind == "array" and not key.may_be("int"):
            raise ExpressionError(f"an index of an array must be a number, found {key}", node.at)
        if holder.kind == "map" and not key.may_be("string"):
            raise ExpressionError(f"a key of a map must be a string, found {key}", node.at)
        if not holder.may_be("array", "map"):
            raise ExpressionError(f"{holder} has no members", node.at)

        def evaluate(scope: Scope) -> object:
            found = find_holder(scope)
            if found is None and node.optional:
                raise _ChainEnded
            return member(found, find_key(scope))

        return _Code(holder.element or ANY, evaluate)

    def _slice(self, node: tree.Slice) -> _Code:
        type_, holder = self.make(node.holder)
        if not type_.may_be("array", "string"):
            raise ExpressionError(f"cannot slice {type_}", node.at)
        start, end = self._bound(node.start), self._bound(node.end)

        def evaluate(scope: Scope) -> object:
            found = holder(scope)
            if not isinstance(found, list | str):
                raise ExpressionError(f"cannot slice {kind_of(found)}", node.at)
            low = _bound(start(scope), len(found)) if start is not None else 0
            high = _bound(end(scope), len(found)) if end is not None else len(found)
            return found[min(low, high) : high]

        return _Code(type_, evaluate)

    def _bound(self, node: Node | None) -> Evaluate | None:
        if node is None:
            return None
        found = self.make(node)
        if not found.type.may_be("int"):
            raise ExpressionError(f"a bound must be a whole number, found {found.type}", node.at)
        return found.run

    def _call(self, node: tree.Call) -> _Code:
        name = node.name
        known = self._names.get(name)
        if isinstance(known, Signature):
            given = self._arguments(node, known)
            return _Code(
                known.result,
                lambda scope: scope.lookup(name)(*[argument(scope) for argument in given]),
            )
        if name in PREDICATES:
            return self._predicate(node)
        if name in BUILTINS:
            return self._builtin(node)
        if name in REFUSED:
            raise ExpressionError(
                f"{name}() exists in CoreDNS but not in hsdns, where expressions have no access to the time",
                node.at,
            )
        if known is not None or name in self._lets:
            raise ExpressionError(f"{name} is not a function", node.at)
        raise ExpressionError(f'function "{name}" is not known{self._did_you_mean(name)}', node.at)

    def _arguments(self, node: tree.Call, signature: Signature) -> list[Evaluate]:
        found = [self.make(argument) for argument in node.arguments]
        if not signature.fits(len(found)):
            raise ExpressionError(_count_error(node.name, signature, len(found)), node.at)
        for index, (argument, code) in enumerate(zip(node.arguments, found, strict=True)):
            kinds = signature.kinds(index)
            if not code.type.may_be(*kinds):
                raise ExpressionError(
                    f"{node.name} takes {' or '.join(kinds)} here, found {code.type}", argument.at
                )
        return [code.run for code in found]

    def _builtin(self, node: tree.Call) -> _Code:
        signature, run = BUILTINS[node.name]
        given = self._arguments(node, signature)

        def evaluate(scope: Scope) -> object:
            values = [argument(scope) for argument in given]
            for index, value in enumerate(values):
                kinds = signature.kinds(index)
                if not type_of(value).may_be(*kinds):
                    raise ExpressionError(
                        f"{node.name} takes {' or '.join(kinds)}, found {kind_of(value)}", node.at
                    )
                scope.step(len(value) // 10 if isinstance(value, list | str | dict) else 0)
            return run(*values)

        return _Code(signature.result, evaluate)

    def _predicate(self, node: tree.Call) -> _Code:
        name, arguments = node.name, node.arguments
        array, items = self.make(arguments[0])
        if not array.may_be("array"):
            raise ExpressionError(f"{name} takes an array, found {array}", arguments[0].at)
        result = element = array.element or ANY
        predicate = third = None
        if len(arguments) > 1:
            second = arguments[1]
            assert isinstance(second, tree.Predicate), "ensured by the parser"
            self._elements.append(
                {"": element} | ({"index": INT, "acc": ANY} if name == "reduce" else {})
            )
            result, predicate = self.make(second.body)
            self._elements.pop()
            if name in _BOOLEAN_RESULT | _WITH_CONDITION and not result.may_be("bool"):
                raise ExpressionError(
                    f"{name} takes a condition of type bool, found {result}", second.at
                )
        if len(arguments) > 2:
            order, third = self.make(arguments[2])
            if name == "sortBy" and not order.may_be("string"):
                raise ExpressionError(f"the order must be a string, found {order}", arguments[2].at)
        results = {
            **dict.fromkeys(_BOOLEAN_RESULT, BOOL),
            "count": INT,
            "groupBy": MAP,
            "map": Type("array", result),
            **dict.fromkeys(("filter", "sortBy"), array),
            **dict.fromkeys(("find", "findLast"), element),
        }
        return _Code(
            results.get(name, ANY),
            lambda scope: apply_predicate(name, scope, items(scope), predicate, third),
        )

    def _let(self, node: tree.Let) -> _Code:
        name = node.name
        if name in self._lets or name in self._names or name in BUILTINS or name in PREDICATES:
            raise ExpressionError(f'"{name}" is already defined; choose another name', node.at)
        self._lets[name], value = self.make(node.value)
        type_, body = self.make(node.body)
        del self._lets[name]

        def evaluate(scope: Scope) -> object:
            scope.lets[name] = value(scope)
            return body(scope)

        return _Code(type_, evaluate)


def _type_of_result(word: str, left: Type, right: Type) -> Type | None:
    """Return the type of an operator's result, None if it does not accept the operands."""
    if word in ("==", "!="):
        return BOOL if _comparable(left, right) else None
    if word == "in":
        if right.kind == "array" and right.element is not None:
            return BOOL if _comparable(left, right.element) else None
        return BOOL if (right.may_be("map") and left.may_be("string")) or right == ANY else None
    if word == "??":
        return left if right == NIL or left == right else right if left == NIL else ANY
    kinds, result = _OPERANDS[word]
    if not any(left.may_be(kind) and right.may_be(kind) for kind in kinds.split()):
        return None
    if result is not None:
        return result
    found = (left.kind, right.kind)
    return (
        STRING
        if "string" in found
        else ANY
        if "any" in found
        else FLOAT
        if "float" in found
        else INT
    )


def _operation(word: str, left: Evaluate, right: Evaluate, node: Node) -> Evaluate:
    """Compile an operator; `node` is its right operand."""
    if word in ("or", "||"):
        return lambda scope: _truth(left(scope)) or _truth(right(scope))
    if word in ("and", "&&"):
        return lambda scope: _truth(left(scope)) and _truth(right(scope))
    if word == "??":
        return lambda scope: right(scope) if (found := left(scope)) is None else found
    if word == "matches":
        return _matches(left, right, node)
    if (run := _WITH_STEPS.get(word)) is not None:
        return lambda scope: run(left(scope), right(scope), scope)
    calculate = _STRICT.get(word) or partial(_calculate, word)
    return lambda scope: calculate(left(scope), right(scope))


def _comparable(left: Type, right: Type) -> bool:
    if "any" in (left.kind, right.kind) or (left.is_number and right.is_number):
        return True
    if "nil" in (left.kind, right.kind):
        return True
    return left.kind == right.kind


def _count_error(name: str, signature: Signature, found: int) -> str:
    low, high = signature.required, len(signature.arguments)
    if signature.variadic:
        wanted = f"{low} or more"
    else:
        wanted = str(low) if low == high else f"{low} to {high}"
    return f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, found {found}"


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


def _in(value: Any, container: Any, scope: Scope) -> bool:
    scope.step(len(container) if isinstance(container, list) else 0)
    return contains(container, value)


def _calculate(word: str, left: Any, right: Any) -> object:
    if not (is_number(left) and is_number(right)):
        raise ExpressionError(f'"{word}" does not take {kind_of(left)} and {kind_of(right)}')
    found = _ARITHMETIC[word](left, right)
    return wrap(found) if isinstance(found, int) else found


def _add(left: Any, right: Any, scope: Scope) -> object:
    if isinstance(left, str) and isinstance(right, str):
        scope.step((len(left) + len(right)) // 10)
        return left + right
    return _calculate("+", left, right)


def _remainder(left: Any, right: Any) -> int:
    if not (isinstance(left, int) and isinstance(right, int)):
        raise ExpressionError('"%" takes whole numbers')
    if right == 0:
        raise ExpressionError("division by zero")
    return int(math.copysign(1, left)) * (abs(left) % abs(right))


def _divide(left: float, right: float) -> float:
    """Divide as in IEEE 754, where Python raises for zero."""
    left, right = float(left), float(right)
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _power(left: float, right: float) -> float:
    try:
        return math.pow(float(left), float(right))
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
        try:
            pattern = compile_pattern(str(node.value))
        except ValueError as error:
            raise ExpressionError(str(error), node.at) from None

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


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "**": _power,
    "^": _power,
    "%": _remainder,
}
_STRICT: Final[dict[str, Callable[[Any, Any], object]]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": less,
    ">": lambda left, right: less(right, left),
    "<=": lambda left, right: not less(right, left),
    ">=": lambda left, right: not less(left, right),
    "contains": lambda left, right: _text(left).find(_text(right)) >= 0,
    "startsWith": lambda left, right: _text(left).startswith(_text(right)),
    "endsWith": lambda left, right: _text(left).endswith(_text(right)),
}
_WITH_STEPS: Final[dict[str, Callable[[Any, Any, Scope], object]]] = {
    "in": _in,
    "..": _range,
    "+": _add,
}
