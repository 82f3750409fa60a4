"""Operations on values of expressions: comparison, members, conversion.

Path: evaluate.py and builtins.py.
Source: expr-lang/expr 1.17 vm/runtime; a value is a bool, int, float, str, list, dict or None.
Rule 1: a bool is not a number, unlike in Python.
Rule 2: integers have 64 bits and wrap.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

from hsdns.expression.fault import ExpressionError

_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (int, "int"),
    (float, "float"),
    (str, "string"),
    (list, "array"),
    (dict, "map"),
)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def kind_of(value: object) -> str:
    """Return the name of a value's kind."""
    return next((name for kind, name in _NAMES if isinstance(value, kind)), "nil")


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
