"""The types of an expression: what cannot be right is refused before any query comes.

Path: the third step, `parser -> check -> evaluate`.
Source: expr-lang/expr 1.17 checker/checker.go.
Rule 1: `any` fits everywhere; a member of a map is `any`, so what is made of it is only checked when it is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hsdns.corefile.pattern import compile_pattern
from hsdns.corefile.tree import did_you_mean
from hsdns.expression import tree
from hsdns.expression.builtins import BUILTINS, REFUSED
from hsdns.expression.fault import ExpressionError
from hsdns.expression.parser import PREDICATES
from hsdns.expression.tree import Node
from hsdns.expression.types import (
    ANY,
    ARRAY,
    BOOL,
    FLOAT,
    INT,
    MAP,
    NIL,
    STRING,
    Signature,
    Type,
    type_of,
)

Names = Mapping[str, Type | Signature]
_TRUTHS: Final = frozenset({"all", "none", "any", "one"})
_WANT_TRUTH: Final = frozenset(
    {"filter", "find", "findLast", "findIndex", "findLastIndex", "count"}
)


def check(node: Node, names: Names) -> Type:
    """Work out the type of an expression; `names` are variables and functions.  Raise ExpressionError."""
    return _Checker(names).visit(node)


class _Checker:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._lets: dict[str, Type] = {}
        self._elements: list[dict[str, Type]] = []  # what # and #name are, innermost last

    def visit(self, node: Node) -> Type:
        """Work out the type of a part."""
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
        raise ExpressionError(f'"{name}" is not known{self._guess(name)}', node.at)

    def _guess(self, name: str) -> str:
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
        """The type that an operator gives, None where it does not take these."""
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
            raise ExpressionError(
                f"a condition must be bool, this is {condition}", node.condition.at
            )
        one, other = self.visit(node.then), self.visit(node.otherwise)
        if NIL in (one, other):
            return other if one == NIL else one
        return one if one == other else ANY

    def _member(self, node: tree.Member) -> Type:
        holder, key = self.visit(node.holder), self.visit(node.key)
        if holder.kind == "array":
            if not key.may_be("int"):
                raise ExpressionError(f"an element of an array has a number, not {key}", node.at)
            return holder.element or ANY
        if holder.kind == "map":
            if not key.may_be("string"):
                raise ExpressionError(f"a key of a map is a string, not {key}", node.at)
            return ANY
        if holder.kind == "any":
            return ANY
        raise ExpressionError(f"{holder} has no members", node.at)

    def _slice(self, node: tree.Slice) -> Type:
        holder = self.visit(node.holder)
        if not holder.may_be("array", "string"):
            raise ExpressionError(f"cannot take a part of {holder}", node.at)
        for bound in (node.start, node.end):
            if bound is not None and not (found := self.visit(bound)).may_be("int"):
                raise ExpressionError(f"a bound is a whole number, not {found}", bound.at)
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
                f"{name}() exists in CoreDNS but not in hsdns: an expression does not know the time",
                node.at,
            )
        if known is not None or name in self._lets:
            raise ExpressionError(f"{name} is not a function", node.at)
        raise ExpressionError(f'function "{name}" is not known{self._guess(name)}', node.at)

    def _arguments(self, node: tree.Call, signature: Signature) -> Type:
        found = [self.visit(argument) for argument in node.arguments]
        if not signature.fits(len(found)):
            raise ExpressionError(_wanted(node.name, signature, len(found)), node.at)
        for index, (argument, kind) in enumerate(zip(node.arguments, found, strict=True)):
            kinds = signature.kinds(index)
            if not kind.may_be(*kinds):
                raise ExpressionError(
                    f"{node.name} takes {' or '.join(kinds)} here, not {kind}", argument.at
                )
        return signature.result

    def _predicate(self, node: tree.Call) -> Type:
        name = node.name
        items = self.visit(node.arguments[0])
        if not items.may_be("array"):
            raise ExpressionError(f"{name} takes an array, not {items}", node.arguments[0].at)
        element = items.element or ANY
        result = element
        if len(node.arguments) > 1:
            predicate = node.arguments[1]
            assert isinstance(predicate, tree.Predicate), "the parser makes it"
            scope = {"": element}
            if name == "reduce":
                scope |= {"index": INT, "acc": ANY}
            self._elements.append(scope)
            result = self.visit(predicate.body)
            self._elements.pop()
            if name in _TRUTHS | _WANT_TRUTH and not result.may_be("bool"):
                raise ExpressionError(f"{name} takes a condition, this is {result}", predicate.at)
        if len(node.arguments) > 2:
            third = self.visit(node.arguments[2])
            if name == "sortBy" and not third.may_be("string"):
                raise ExpressionError(f"the order is a string, not {third}", node.arguments[2].at)
        if name in _TRUTHS:
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
            raise ExpressionError(f'"{name}" has a meaning already; choose another name', node.at)
        self._lets[name] = self.visit(node.value)
        found = self.visit(node.body)
        del self._lets[name]
        return found


def _both(left: Type, right: Type, *kinds: str) -> bool:
    """Whether both can be of one of these kinds, and of the same one."""
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


def _wanted(name: str, signature: Signature, found: int) -> str:
    low, high = signature.required, len(signature.arguments)
    if signature.variadic:
        wanted = f"{low} or more"
    else:
        wanted = str(low) if low == high else f"{low} to {high}"
    return f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}, found {found}"
