"""Type checker of expressions: type errors are found before any query.

Path: the third step, `parser -> check -> evaluate`.
Source: expr-lang/expr 1.17 checker/checker.go.
Rule 1: `any` matches every type; a member of a map is `any`, so its use is checked during evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.corefile.properties import compile_pattern
from hsdns.corefile.tree import did_you_mean
from hsdns.expression import tree
from hsdns.expression.builtins import BUILTINS, REFUSED
from hsdns.expression.parser import PREDICATES
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
    type_of,
)

Names = Mapping[str, Type | Signature]
_BOOLEAN_RESULT: Final = frozenset({"all", "none", "any", "one"})
_WITH_CONDITION: Final = frozenset(
    {"filter", "find", "findLast", "findIndex", "findLastIndex", "count"}
)


def check(node: Node, names: Names) -> Type:
    """Return the type of an expression; `names` are its variables and functions; raise ExpressionError."""
    return _Checker(names).visit(node)


class _Checker:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._lets: dict[str, Type] = {}
        self._elements: list[dict[str, Type]] = []  # types of # and #name, innermost last

    def visit(self, node: Node) -> Type:
        """Return the type of a node."""
        match node:
            case tree.Literal(value=value):
                return type_of(value)
            case tree.Identifier():
                return self._identifier(node)
            case tree.Pointer():
                return self._pointer(node)
            case tree.Unary(operator=operator, operand=operand):
                return self._unary(node, operator, self.visit(operand))
            case tree.Binary():
                return self._binary(node)
            case tree.Conditional():
                return self._conditional(node)
            case tree.Chain(link=link):
                self.visit(link)
                return ANY
            case tree.Member():
                return self._member(node)
            case tree.Slice():
                return self._slice(node)
            case tree.Call():
                return self._call(node)
            case tree.Let():
                return self._let(node)
            case tree.Sequence(parts=parts):
                return [self.visit(part) for part in parts][-1]
            case tree.Array(items=items):
                found = {self.visit(item) for item in items}
                return Type("array", found.pop()) if len(found) == 1 else ARRAY
            case tree.Map(pairs=pairs):
                for key, value in pairs:
                    self.visit(key)
                    self.visit(value)
                return MAP
        raise AssertionError(f"{node} is not a value by itself")

    def _identifier(self, node: tree.Identifier) -> Type:
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

    def _pointer(self, node: tree.Pointer) -> Type:
        found = self._elements[-1].get(node.name)
        if found is None:
            raise ExpressionError(f'"#{node.name}" is not known', node.at)
        return found

    def _unary(self, node: Node, operator: str, operand: Type) -> Type:
        if operator in ("not", "!"):
            if operand.may_be("bool"):
                return BOOL
        elif operand.may_be("number"):
            return operand
        raise ExpressionError(f'"{operator}" does not take {operand}', node.at)

    def _binary(self, node: tree.Binary) -> Type:
        left, right, operator = self.visit(node.left), self.visit(node.right), node.operator
        found = self._result(operator, left, right)
        if found is None:
            raise ExpressionError(f'"{operator}" does not take {left} and {right}', node.at)
        if operator == "matches" and isinstance(node.right, tree.Literal):
            try:
                compile_pattern(str(node.right.value))
            except ValueError as error:
                raise ExpressionError(str(error), node.right.at) from None
        return found

    @staticmethod
    def _result(operator: str, left: Type, right: Type) -> Type | None:
        """Return the type of an operator's result, None if it does not accept the operands."""
        match operator:
            case "==" | "!=":
                return BOOL if _comparable(left, right) else None
            case "or" | "||" | "and" | "&&":
                return BOOL if left.may_be("bool") and right.may_be("bool") else None
            case "<" | ">" | "<=" | ">=":
                return BOOL if _both(left, right, "number", "string") else None
            case "+":
                if not _both(left, right, "number", "string"):
                    return None
                return STRING if "string" in (left.kind, right.kind) else _promoted(left, right)
            case "-" | "*":
                return _promoted(left, right) if _both(left, right, "number") else None
            case "/" | "**" | "^":
                return FLOAT if _both(left, right, "number") else None
            case "%":
                return INT if left.may_be("int") and right.may_be("int") else None
            case "..":
                ints = left.may_be("int") and right.may_be("int")
                return Type("array", INT) if ints else None
            case "matches" | "contains" | "startsWith" | "endsWith":
                return BOOL if _both(left, right, "string") else None
            case "in":
                if right.kind == "array" and right.element is not None:
                    return BOOL if _comparable(left, right.element) else None
                if right.kind == "map":
                    return BOOL if left.may_be("string") else None
                return BOOL if right.kind == "any" else None
            case "??":
                return left if right == NIL or left == right else right if left == NIL else ANY
        raise AssertionError(operator)

    def _conditional(self, node: tree.Conditional) -> Type:
        condition = self.visit(node.condition)
        if not condition.may_be("bool"):
            raise ExpressionError(f"a condition must be bool, found {condition}", node.condition.at)
        one, other = self.visit(node.then), self.visit(node.otherwise)
        if NIL in (one, other):
            return other if one == NIL else one
        return one if one == other else ANY

    def _member(self, node: tree.Member) -> Type:
        holder, key = self.visit(node.holder), self.visit(node.key)
        if holder.kind == "array":
            if not key.may_be("int"):
                raise ExpressionError(
                    f"an index of an array must be a number, found {key}", node.at
                )
            return holder.element or ANY
        if holder.kind == "map":
            if not key.may_be("string"):
                raise ExpressionError(f"a key of a map must be a string, found {key}", node.at)
            return ANY
        if holder.kind == "any":
            return ANY
        raise ExpressionError(f"{holder} has no members", node.at)

    def _slice(self, node: tree.Slice) -> Type:
        holder = self.visit(node.holder)
        if not holder.may_be("array", "string"):
            raise ExpressionError(f"cannot slice {holder}", node.at)
        for bound in (node.start, node.end):
            if bound is not None and not (found := self.visit(bound)).may_be("int"):
                raise ExpressionError(f"a bound must be a whole number, found {found}", bound.at)
        return holder

    def _call(self, node: tree.Call) -> Type:
        name = node.name
        known = self._names.get(name)
        if isinstance(known, Signature):
            return self._arguments(node, known)
        if name in PREDICATES:
            return self._predicate(node)
        if name in BUILTINS:
            return self._arguments(node, BUILTINS[name].signature)
        if name in REFUSED:
            raise ExpressionError(
                f"{name}() exists in CoreDNS but not in hsdns, where expressions have no access to the time",
                node.at,
            )
        if known is not None or name in self._lets:
            raise ExpressionError(f"{name} is not a function", node.at)
        raise ExpressionError(f'function "{name}" is not known{self._did_you_mean(name)}', node.at)

    def _arguments(self, node: tree.Call, signature: Signature) -> Type:
        found = [self.visit(argument) for argument in node.arguments]
        if not signature.fits(len(found)):
            raise ExpressionError(_count_error(node.name, signature, len(found)), node.at)
        for index, (argument, kind) in enumerate(zip(node.arguments, found, strict=True)):
            kinds = signature.kinds(index)
            if not kind.may_be(*kinds):
                raise ExpressionError(
                    f"{node.name} takes {' or '.join(kinds)} here, found {kind}", argument.at
                )
        return signature.result

    def _predicate(self, node: tree.Call) -> Type:
        name = node.name
        items = self.visit(node.arguments[0])
        if not items.may_be("array"):
            raise ExpressionError(f"{name} takes an array, found {items}", node.arguments[0].at)
        element = items.element or ANY
        result = element
        if len(node.arguments) > 1:
            predicate = node.arguments[1]
            assert isinstance(predicate, tree.Predicate), "ensured by the parser"
            scope = {"": element}
            if name == "reduce":
                scope |= {"index": INT, "acc": ANY}
            self._elements.append(scope)
            result = self.visit(predicate.body)
            self._elements.pop()
            if name in _BOOLEAN_RESULT | _WITH_CONDITION and not result.may_be("bool"):
                raise ExpressionError(
                    f"{name} takes a condition of type bool, found {result}", predicate.at
                )
        if len(node.arguments) > 2:
            third = self.visit(node.arguments[2])
            if name == "sortBy" and not third.may_be("string"):
                raise ExpressionError(
                    f"the order must be a string, found {third}", node.arguments[2].at
                )
        if name in _BOOLEAN_RESULT:
            return BOOL
        if name in ("count", "findIndex", "findLastIndex"):
            return INT if name == "count" else ANY
        if name == "groupBy":
            return MAP
        if name == "map":
            return Type("array", result)
        if name in ("filter", "sortBy"):
            return items
        return element if name in ("find", "findLast") else ANY

    def _let(self, node: tree.Let) -> Type:
        name = node.name
        if name in self._lets or name in self._names or name in BUILTINS or name in PREDICATES:
            raise ExpressionError(f'"{name}" is already defined; choose another name', node.at)
        self._lets[name] = self.visit(node.value)
        found = self.visit(node.body)
        del self._lets[name]
        return found


def _both(left: Type, right: Type, *kinds: str) -> bool:
    """Whether both can have the same of these kinds."""
    return any(left.may_be(kind) and right.may_be(kind) for kind in kinds)


def _comparable(left: Type, right: Type) -> bool:
    if "any" in (left.kind, right.kind) or (left.is_number and right.is_number):
        return True
    if "nil" in (left.kind, right.kind):
        return True
    return left.kind == right.kind


def _promoted(left: Type, right: Type) -> Type:
    if "any" in (left.kind, right.kind):
        return ANY
    return FLOAT if "float" in (left.kind, right.kind) else INT


def _count_error(name: str, signature: Signature, found: int) -> str:
    low, high = signature.required, len(signature.arguments)
    if signature.variadic:
        wanted = f"{low} or more"
    else:
        wanted = str(low) if low == high else f"{low} to {high}"
    return f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, found {found}"
