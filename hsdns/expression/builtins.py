"""Builtin functions of expressions.

Path: compiler.py reads their signatures and calls them.  Scope is the state of one evaluation.
Source: expr-lang/expr 1.17 builtin/builtin.go and lib.go.
Rule 1: they raise ExpressionError, and their results are limited to MAX_SIZE.
Rule 2: functions of the clock or time zones (now, date, timezone, duration) are refused by name: an expression depends
        on the query only.

Values:
Source: expr-lang/expr 1.17 vm/runtime; a value is a bool, int, float, str, list, dict or None.
Rule 1: a bool is not a number, unlike in Python.
Rule 2: integers have 64 bits and wrap.

Functions with a predicate, which is evaluated for each element of an array:
Source: expr-lang/expr 1.17 compiler.
"""

from __future__ import annotations

import base64
import json
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

from hsdns.expression.tree import (
    ANY,
    ARRAY,
    FLOAT,
    INT,
    MAP,
    STRING,
    ExpressionError,
    Signature,
    Type,
    kind_of,
    signature,
)

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def is_number(value: object) -> bool:
    """Whether it is an int or a float."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrap(value: int) -> int:
    """Wrap an integer to 64 bits."""
    if -(2**63) <= value < 2**63:
        return value
    return (value + 2**63) % 2**64 - 2**63


def equal(one: object, other: object) -> bool:
    """Whether two values are equal; an int may equal a float, but no value of any other kind."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if is_number(one) and is_number(other):
        return one == other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def less(one: Any, other: Any) -> bool:
    """Whether a number or a string is less than another; raise ExpressionError for other kinds."""
    if (is_number(one) and is_number(other)) or (isinstance(one, str) and isinstance(other, str)):
        found: bool = one < other
        return found
    raise ExpressionError(f"cannot compare {kind_of(one)} and {kind_of(other)}")


def contains(container: object, value: object) -> bool:
    """Whether an array contains an element, or a map a key; nil contains nothing."""
    if container is None:
        return False
    if isinstance(container, list):
        return any(equal(item, value) for item in container)
    if isinstance(container, dict):
        return not isinstance(value, list | dict) and value in container
    raise ExpressionError(f'"in" needs an array or a map, found {kind_of(container)}')


def member(holder: Any, key: Any) -> object:
    """Return an element of an array or a value of a map (nil if absent); raise ExpressionError."""
    if isinstance(holder, dict):
        if isinstance(key, list | dict):
            raise ExpressionError(f"{kind_of(key)} cannot be a key")
        return holder.get(key)
    if isinstance(holder, list | str):
        if not is_number(key):
            raise ExpressionError(f"an index of an array must be a number, found {kind_of(key)}")
        at = int(key)
        if not -len(holder) <= at < len(holder):
            raise ExpressionError(f"index {at} is out of range for {len(holder)} elements")
        found: object = holder[at]
        return found
    raise ExpressionError(f"{kind_of(holder)} has no member {to_text(key)}")


def to_int(value: Any) -> int:
    """Convert a number or decimal digits to an int."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError(f"{to_text(value)} is not a whole number")
        return wrap(int(value))
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value) or len(value) > 20 or wrap(int(value)) != int(value):
            raise ExpressionError(f'"{value[:80]}" is not a whole number')
        return int(value)
    return int(value)


def to_float(value: Any) -> float:
    """Convert a number or its text to a float."""
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise ExpressionError(f'"{value[:80]}" is not a number')
        return float(value)
    return float(value)


def to_text(value: object) -> str:
    """Format a value like Go's %v."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_to_text(value)
    if isinstance(value, list):
        return f"[{' '.join(map(to_text, value))}]"
    if isinstance(value, dict):
        pairs = sorted((to_text(key), to_text(found)) for key, found in value.items())
        return f"map[{' '.join(f'{key}:{found}' for key, found in pairs)}]"
    return str(value)


def float_to_text(value: float) -> str:
    """Format a float like Go's %v: shortest digits, with an exponent from 1e+06 and below 1e-4."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    exponent = Decimal(repr(value)).adjusted()
    if -4 <= exponent < 6:
        return repr(value).removesuffix(".0")
    sign = "-" if value < 0 else ""
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0")
    mantissa = f"{digits[0]}.{digits[1:]}".removesuffix(".")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def to_json(value: object) -> str:
    """Format a value as JSON, indented by two spaces like Go's MarshalIndent."""
    try:
        made = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ExpressionError(f"{kind_of(value)} cannot be written as JSON") from None
    return made.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


MAX_STEPS: Final = 50_000  # visited elements: some tens of milliseconds


class Scope:
    """Variables, functions and the current elements of predicates."""

    __slots__ = ("_left", "_values", "elements", "lets")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._left = MAX_STEPS
        self.lets: dict[str, Any] = {}
        self.elements: list[dict[str, Any]] = []

    def lookup(self, name: str) -> Any:
        """Return the value of a name; one defined by `let` takes precedence."""
        return self.lets[name] if name in self.lets else self._values[name]

    def step(self, count: int = 1) -> None:
        """Count visited elements; raise ExpressionError if there are too many."""
        self._left -= count
        if self._left < 0:
            raise ExpressionError(f"the expression takes more than {MAX_STEPS} steps")


Evaluate = Callable[[Scope], Any]


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
        case "map":
            return list(found)
        case "sum":
            return _sum(found)
        case "groupBy":
            return _group_by(items, found)
        case "sortBy":
            order = third(scope) if third is not None else "asc"
            if not isinstance(order, str):
                raise ExpressionError(f"the order must be a string, found {kind_of(order)}")
            return sort_by(items, list(found), order)
        case "filter":
            return [item for item, value in zip(items, found, strict=True) if _truth(name, value)]
        case "all" | "none" | "any" | "one" | "count":
            return _CONDITIONS[name](_truth(name, value) for value in found)
    places = range(len(items))
    if name.startswith("findLast"):
        places, found = places[::-1], _each(scope, items[::-1], predicate)
    at = next((at for at, value in zip(places, found, strict=True) if _truth(name, value)), None)
    return at if at is None or name.endswith("Index") else items[at]


_CONDITIONS: Final[dict[str, Callable[[Iterator[bool]], object]]] = {
    "all": all,
    "none": lambda found: not any(found),
    "any": any,
    "one": lambda found: sum(found) == 1,
    "count": sum,
}


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


MAX_SIZE: Final = 100_000  # characters of a string, elements of an array
MAX_NESTING: Final = 50  # arrays within arrays
REFUSED: Final = frozenset({"now", "date", "timezone", "duration"})


class Builtin(NamedTuple):
    """A function: types of its arguments and result, and its implementation."""

    signature: Signature
    run: Callable[..., object]


def _cut(text: str, separator: str, count: int = -1, *, keep: bool) -> list[str]:
    if count == 0:
        return []
    if not separator:
        pieces = list(text)
        if 0 < count < len(pieces):
            pieces[count - 1 :] = ["".join(pieces[count - 1 :])]
        return pieces
    pieces = text.split(separator, count - 1) if count > 0 else text.split(separator)
    return [piece + separator for piece in pieces[:-1]] + pieces[-1:] if keep else pieces


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    places = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + places * len(new) > MAX_SIZE:
        raise ExpressionError(f"replace makes more than {MAX_SIZE} characters")
    return text.replace(old, new, count)


def _repeat(text: str, count: int) -> str:
    if count < 0:
        raise ExpressionError(f"repeat takes a count of 0 or more, found {count}")
    if len(text) * count > MAX_SIZE:
        raise ExpressionError(f"repeat makes more than {MAX_SIZE} characters")
    return text * count


def _join(items: list[Any], glue: str = "") -> str:
    for item in items:
        if not isinstance(item, str):
            raise ExpressionError(f"join takes an array of strings, found {kind_of(item)} in it")
    if sum(map(len, items)) + len(glue) * len(items) > MAX_SIZE:
        raise ExpressionError(f"join makes more than {MAX_SIZE} characters")
    return glue.join(items)


def _round(value: float) -> float:
    number = to_float(value)
    return math.copysign(math.floor(abs(number) + 0.5), number)


def _numbers(what: str, values: Iterable[Any], depth: int = 0) -> list[int | float]:
    """Return all numbers in the arguments, including those in arrays."""
    if depth > MAX_NESTING:
        raise ExpressionError(f"{what}: arrays are nested more than {MAX_NESTING} deep")
    found: list[int | float] = []
    for value in values:
        if isinstance(value, list):
            found += _numbers(what, value, depth + 1)
        elif is_number(value):
            found.append(value)
        else:
            raise ExpressionError(f"{what} takes numbers, found {kind_of(value)}")
    return found


def _of_numbers(name: str, fold: Callable[[list[int | float]], object], empty: object) -> Builtin:
    """A function of all numbers in its arguments, with its value for none."""
    result = ANY if empty is None else FLOAT
    return _of(
        "number|array ...",
        result,
        lambda *values: fold(found) if (found := _numbers(name, values)) else empty,
    )


def _from_json(text: str) -> object:
    try:
        return json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        raise ExpressionError(f'fromJSON: "{text[:80]}" is not JSON') from None


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        raise ExpressionError(f'fromBase64: "{text[:80]}" is not Base64 of text') from None


def _get(holder: Any, key: Any) -> object:
    if holder is None:
        return None
    try:
        return member(holder, key)
    except ExpressionError:
        return None


def _take(items: list[Any], count: int) -> list[Any]:
    if count < 0:
        raise ExpressionError(f"take takes a count of 0 or more, found {count}")
    return items[:count]


def _from_pairs(pairs: list[Any]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ExpressionError("fromPairs takes an array of pairs")
        if isinstance(pair[0], list | dict):
            raise ExpressionError(f"fromPairs: {kind_of(pair[0])} cannot be a key")
        made[pair[0]] = pair[1]
    return made


def _uniq(items: list[Any]) -> list[Any]:
    if len(items) > 1000:  # quadratic: elements need not be hashable
        raise ExpressionError("uniq takes at most 1000 elements")
    found: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in found):
            found.append(item)
    return found


def _concat(*arrays: list[Any]) -> list[Any]:
    if sum(map(len, arrays)) > MAX_SIZE:
        raise ExpressionError(f"concat makes more than {MAX_SIZE} elements")
    return [item for array in arrays for item in array]


def _flatten(items: list[Any], depth: int = 0) -> list[Any]:
    if depth > MAX_NESTING:
        raise ExpressionError(f"flatten: arrays are nested more than {MAX_NESTING} deep")
    found: list[Any] = []
    for item in items:
        found += _flatten(item, depth + 1) if isinstance(item, list) else [item]
        if len(found) > MAX_SIZE:
            raise ExpressionError(f"flatten makes more than {MAX_SIZE} elements")
    return found


class _Ordered:
    """A value with the order of sort()."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __lt__(self, other: _Ordered) -> bool:
        return less(self.value, other.value)


def sort_by(items: list[Any], keys: list[Any], order: str = "asc") -> list[Any]:
    """Sort elements by the corresponding keys."""
    if order not in ("asc", "desc"):
        raise ExpressionError(f'the order must be "asc" or "desc", found "{order}"')
    places = sorted(range(len(items)), key=lambda at: _Ordered(keys[at]), reverse=order == "desc")
    return [items[place] for place in places]


def _shift(value: int, count: int, word: str) -> int:
    if count < 0:
        raise ExpressionError(f"cannot shift by {count}")
    if word == "left":
        return wrap(value << count) if count < 64 else 0
    return wrap((value if word == "right" else value & (2**64 - 1)) >> min(count, 64))


def _of(arguments: str, result: Type, run: Callable[..., object]) -> Builtin:
    return Builtin(signature(arguments, result), run)


_ITEMS: Final = Type("array", STRING)
BUILTINS: Final[dict[str, Builtin]] = {
    "len": _of("string|array|map", INT, len),
    "type": _of("any", STRING, kind_of),
    "abs": _of(
        "number", ANY, lambda value: wrap(abs(value)) if isinstance(value, int) else abs(value)
    ),
    "ceil": _of("number", FLOAT, lambda value: float(math.ceil(value))),
    "floor": _of("number", FLOAT, lambda value: float(math.floor(value))),
    "round": _of("number", FLOAT, _round),
    "int": _of("number|string", INT, to_int),
    "float": _of("number|string", FLOAT, to_float),
    "string": _of("any", STRING, to_text),
    "trim": _of("string [string]", STRING, str.strip),
    "trimPrefix": _of("string [string]", STRING, lambda text, cut=" ": text.removeprefix(cut)),
    "trimSuffix": _of("string [string]", STRING, lambda text, cut=" ": text.removesuffix(cut)),
    "upper": _of("string", STRING, str.upper),
    "lower": _of("string", STRING, str.lower),
    "split": _of("string string [int]", _ITEMS, partial(_cut, keep=False)),
    "splitAfter": _of("string string [int]", _ITEMS, partial(_cut, keep=True)),
    "replace": _of("string string string [int]", STRING, _replace),
    "repeat": _of("string int", STRING, _repeat),
    "join": _of("array [string]", STRING, _join),
    "indexOf": _of("string string", INT, str.find),
    "lastIndexOf": _of("string string", INT, str.rfind),
    "hasPrefix": _of("string string", Type("bool"), str.startswith),
    "hasSuffix": _of("string string", Type("bool"), str.endswith),
    "max": _of_numbers("max", max, None),
    "min": _of_numbers("min", min, None),
    "mean": _of_numbers("mean", lambda found: sum(found) / len(found), 0.0),
    "median": _of_numbers("median", lambda found: float(statistics.median(found)), 0.0),
    "toJSON": _of("any", STRING, to_json),
    "fromJSON": _of("string", ANY, _from_json),
    "toBase64": _of("string", STRING, lambda text: base64.b64encode(text.encode()).decode()),
    "fromBase64": _of("string", STRING, _from_base64),
    "first": _of("array", ANY, lambda items: items[0] if items else None),
    "last": _of("array", ANY, lambda items: items[-1] if items else None),
    "get": _of("array|map|string|nil any", ANY, _get),
    "take": _of("array int", ARRAY, _take),
    "keys": _of("map", ARRAY, list),
    "values": _of("map", ARRAY, lambda found: list(found.values())),
    "toPairs": _of("map", ARRAY, lambda found: [[key, value] for key, value in found.items()]),
    "fromPairs": _of("array", MAP, _from_pairs),
    "reverse": _of("array", ARRAY, lambda items: items[::-1]),
    "uniq": _of("array", ARRAY, _uniq),
    "concat": _of("array ...", ARRAY, _concat),
    "flatten": _of("array", ARRAY, _flatten),
    "sort": _of("array [string]", ARRAY, lambda items, order="asc": sort_by(items, items, order)),
    "bitand": _of("int int", INT, operator.and_),
    "bitor": _of("int int", INT, operator.or_),
    "bitxor": _of("int int", INT, operator.xor),
    "bitnand": _of("int int", INT, lambda one, other: one & ~other),
    "bitnot": _of("int", INT, operator.invert),
    "bitshl": _of("int int", INT, partial(_shift, word="left")),
    "bitshr": _of("int int", INT, partial(_shift, word="right")),
    "bitushr": _of("int int", INT, partial(_shift, word="unsigned")),
}
