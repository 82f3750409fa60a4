"""Builtin functions with a predicate, which is evaluated for each element of an array.

Path: evaluate.py calls apply_predicate() with closures.
Source: expr-lang/expr 1.17 compiler (builtins with a predicate).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hsdns.expression.builtins import sort_by
from hsdns.expression.fault import ExpressionError
from hsdns.expression.scope import Evaluate, Scope
from hsdns.expression.values import is_number, kind_of, wrap


def apply_predicate(
    name: str, scope: Scope, items: Any, predicate: Evaluate | None, third: Evaluate | None
) -> object:
    """Call a function; raise ExpressionError."""
    if not isinstance(items, list):
        raise ExpressionError(f"{name} takes an array, found {kind_of(items)}")
    if name == "reduce":
        return _reduce(scope, items, predicate, third)
    found = _each(scope, items, predicate)
    match name:
        case "all":
            return all(_truth(name, value) for value in found)
        case "none":
            return not any(_truth(name, value) for value in found)
        case "any":
            return any(_truth(name, value) for value in found)
        case "one":
            return sum(_truth(name, value) for value in found) == 1
        case "count":
            return sum(_truth(name, value) for value in found)
        case "filter":
            return [item for item, value in zip(items, found, strict=True) if _truth(name, value)]
        case "map":
            return list(found)
        case "sum":
            return _sum(found)
        case "find" | "findIndex":
            return _find(name, items, enumerate(found), name == "findIndex")
        case "findLast" | "findLastIndex":
            backward = _each(scope, items[::-1], predicate)
            places = ((len(items) - 1 - at, value) for at, value in enumerate(backward))
            return _find(name, items, places, name == "findLastIndex")
        case "groupBy":
            return _group_by(items, found)
        case "sortBy":
            order = third(scope) if third is not None else "asc"
            if not isinstance(order, str):
                raise ExpressionError(f"the order must be a string, found {kind_of(order)}")
            return sort_by(items, list(found), order)
    raise AssertionError(name)


def _each(scope: Scope, items: list[Any], predicate: Evaluate | None) -> Iterator[Any]:
    """Yield the predicate's value for each element, or the element itself without a predicate."""
    element: dict[str, Any] = {}
    for item in items:
        scope.step()
        if predicate is None:
            yield item
            continue
        element[""] = item
        scope.elements.append(element)
        value = predicate(scope)
        scope.elements.pop()
        yield value


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ExpressionError(f"{name} takes a condition of type bool, found {kind_of(value)}")
    return value


def _sum(values: Iterator[Any]) -> int | float:
    total: int | float = 0
    for value in values:
        if not is_number(value):
            raise ExpressionError(f"sum takes numbers, found {kind_of(value)}")
        total += value
    return wrap(total) if isinstance(total, int) else total


def _find(name: str, items: list[Any], places: Iterator[tuple[int, Any]], index: bool) -> object:
    for at, value in places:
        if _truth(name, value):
            return at if index else items[at]
    return None


def _group_by(items: list[Any], keys: Iterator[Any]) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for item, key in zip(items, keys, strict=True):
        if isinstance(key, list | dict):
            raise ExpressionError(f"groupBy: {kind_of(key)} cannot be a key")
        groups.setdefault(key, []).append(item)
    return groups


def _reduce(
    scope: Scope, items: list[Any], predicate: Evaluate | None, third: Evaluate | None
) -> object:
    assert predicate is not None, "ensured by the parser"
    if third is not None:
        total, rest = third(scope), list(enumerate(items))
    elif items:
        total, rest = items[0], list(enumerate(items))[1:]
    else:
        raise ExpressionError("reduce of an empty array needs an initial value as third argument")
    for index, item in rest:
        scope.step()
        scope.elements.append({"": item, "index": index, "acc": total})
        total = predicate(scope)
        scope.elements.pop()
    return total
