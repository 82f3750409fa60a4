"""Builtin functions of expressions.

Path: check.py reads their signatures, evaluate.py calls them.
Source: expr-lang/expr 1.17 builtin/builtin.go and lib.go.
Rule 1: they raise ExpressionError, and their results are limited to MAX_SIZE.
Rule 2: functions of the clock or time zones (now, date, timezone, duration) are refused by name: an expression depends
        on the query only.
"""

from __future__ import annotations

import base64
import json
import math
import statistics
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from hsdns.expression.fault import ExpressionError
from hsdns.expression.types import ANY, ARRAY, FLOAT, INT, MAP, STRING, Signature, Type, signature
from hsdns.expression.values import (
    equal,
    is_number,
    kind_of,
    less,
    member,
    to_float,
    to_int,
    to_json,
    to_text,
    wrap,
)

MAX_SIZE: Final = 100_000  # characters of a string, elements of an array
MAX_NESTING: Final = 50  # arrays within arrays
REFUSED: Final = frozenset({"now", "date", "timezone", "duration"})


class Builtin(NamedTuple):
    """A function: types of its arguments and result, and its implementation."""

    signature: Signature
    run: Callable[..., object]


def _len(value: Any) -> int:
    return len(value)


def _trim(text: str, chars: str | None = None) -> str:
    return text.strip(chars) if chars is not None else text.strip()


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    return _cut(text, separator, count, keep=False)


def _split_after(text: str, separator: str, count: int = -1) -> list[str]:
    return _cut(text, separator, count, keep=True)


def _cut(text: str, separator: str, count: int, *, keep: bool) -> list[str]:
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


def _max(*values: Any) -> object:
    found = _numbers("max", values)
    return max(found) if found else None


def _min(*values: Any) -> object:
    found = _numbers("min", values)
    return min(found) if found else None


def _mean(*values: Any) -> float:
    found = _numbers("mean", values)
    return sum(found) / len(found) if found else 0.0


def _median(*values: Any) -> float:
    found = _numbers("median", values)
    return float(statistics.median(found)) if found else 0.0


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


def _first(items: list[Any]) -> object:
    return items[0] if items else None


def _last(items: list[Any]) -> object:
    return items[-1] if items else None


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


def _shift(value: int, count: int, *, left: bool) -> int:
    if count < 0:
        raise ExpressionError(f"cannot shift by {count}")
    if left:
        return wrap(value << count) if count < 64 else 0
    return value >> min(count, 63)


def _shift_unsigned(value: int, count: int) -> int:
    if count < 0:
        raise ExpressionError(f"cannot shift by {count}")
    return wrap((value & (2**64 - 1)) >> min(count, 64))


def _abs(value: int | float) -> int | float:
    return wrap(abs(value)) if isinstance(value, int) else abs(value)


def _of(arguments: str, result: Type, run: Callable[..., object]) -> Builtin:
    return Builtin(signature(arguments, result), run)


_ITEMS: Final = Type("array", STRING)
BUILTINS: Final[dict[str, Builtin]] = {
    "len": _of("string|array|map", INT, _len),
    "type": _of("any", STRING, kind_of),
    "abs": _of("number", ANY, _abs),
    "ceil": _of("number", FLOAT, lambda value: float(math.ceil(value))),
    "floor": _of("number", FLOAT, lambda value: float(math.floor(value))),
    "round": _of("number", FLOAT, _round),
    "int": _of("number|string", INT, to_int),
    "float": _of("number|string", FLOAT, to_float),
    "string": _of("any", STRING, to_text),
    "trim": _of("string [string]", STRING, _trim),
    "trimPrefix": _of("string [string]", STRING, lambda text, cut=" ": text.removeprefix(cut)),
    "trimSuffix": _of("string [string]", STRING, lambda text, cut=" ": text.removesuffix(cut)),
    "upper": _of("string", STRING, lambda text: text.upper()),
    "lower": _of("string", STRING, lambda text: text.lower()),
    "split": _of("string string [int]", _ITEMS, _split),
    "splitAfter": _of("string string [int]", _ITEMS, _split_after),
    "replace": _of("string string string [int]", STRING, _replace),
    "repeat": _of("string int", STRING, _repeat),
    "join": _of("array [string]", STRING, _join),
    "indexOf": _of("string string", INT, lambda text, part: text.find(part)),
    "lastIndexOf": _of("string string", INT, lambda text, part: text.rfind(part)),
    "hasPrefix": _of("string string", Type("bool"), lambda text, part: text.startswith(part)),
    "hasSuffix": _of("string string", Type("bool"), lambda text, part: text.endswith(part)),
    "max": _of("number|array ...", ANY, _max),
    "min": _of("number|array ...", ANY, _min),
    "mean": _of("number|array ...", FLOAT, _mean),
    "median": _of("number|array ...", FLOAT, _median),
    "toJSON": _of("any", STRING, to_json),
    "fromJSON": _of("string", ANY, _from_json),
    "toBase64": _of("string", STRING, lambda text: base64.b64encode(text.encode()).decode()),
    "fromBase64": _of("string", STRING, _from_base64),
    "first": _of("array", ANY, _first),
    "last": _of("array", ANY, _last),
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
    "bitand": _of("int int", INT, lambda one, other: one & other),
    "bitor": _of("int int", INT, lambda one, other: one | other),
    "bitxor": _of("int int", INT, lambda one, other: one ^ other),
    "bitnand": _of("int int", INT, lambda one, other: one & ~other),
    "bitnot": _of("int", INT, lambda value: ~value),
    "bitshl": _of("int int", INT, lambda value, count: _shift(value, count, left=True)),
    "bitshr": _of("int int", INT, lambda value, count: _shift(value, count, left=False)),
    "bitushr": _of("int int", INT, _shift_unsigned),
}
