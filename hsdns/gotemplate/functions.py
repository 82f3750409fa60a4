"""Predefined functions of templates.

Path: evaluate.py calls them; it implements `and` and `or` itself, because they short-circuit.
Source: Go's text/template/funcs.go.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote_plus

from hsdns.gotemplate.fault import TemplateError
from hsdns.gotemplate.printf import sprintf
from hsdns.gotemplate.values import MISSING, StringMap, is_true, kind_of, to_text

_NUMBERS: Final = ("int", "float64")


def _index(holder: Any, *keys: Any) -> object:
    for key in keys:
        if isinstance(holder, dict):
            if not isinstance(key, str):
                raise TemplateError(f"the keys of a map are strings, found {kind_of(key)}")
            missing = "" if isinstance(holder, StringMap) else MISSING
            holder = holder.get(key, missing)
        elif isinstance(holder, list | str):
            if not isinstance(key, int) or isinstance(key, bool):
                raise TemplateError(f"cannot index {kind_of(holder)} with {kind_of(key)}")
            if not 0 <= key < len(holder):
                raise TemplateError(f"index {key} is out of range, there are {len(holder)}")
            holder = ord(holder[key]) if isinstance(holder, str) else holder[key]
        else:
            raise TemplateError(f"cannot index {kind_of(holder)}")
    return holder


def _slice(holder: Any, *bounds: Any) -> object:
    if not isinstance(holder, list | str):
        raise TemplateError(f"cannot slice {kind_of(holder)}")
    if len(bounds) > (3 if isinstance(holder, list) else 2):
        raise TemplateError(f"slice: too many bounds ({len(bounds)})")
    places = [0, len(holder), len(holder)]
    for at, bound in enumerate(bounds):
        if not isinstance(bound, int) or isinstance(bound, bool):
            raise TemplateError(f"cannot slice with {kind_of(bound)}")
        places[at] = bound
    start, end, room = places
    if not 0 <= start <= end <= room <= len(holder):
        raise TemplateError(f"slice {start}:{end} is out of range, there are {len(holder)}")
    return holder[start:end]


def _len(value: Any) -> int:
    if not isinstance(value, list | dict | str):
        raise TemplateError(f"len of {kind_of(value)}")
    return len(value)


def _basic(value: object) -> str:
    kind = kind_of(value)
    if kind in ("slice", "map") or kind not in ("bool", "int", "float64", "string", "nil"):
        raise TemplateError(f"cannot compare {kind}")
    return kind


def _eq(first: Any, *others: Any) -> bool:
    if not others:
        raise TemplateError("eq takes 2 or more arguments")
    kind = _basic(first)
    for other in others:
        second = _basic(other)
        if kind != second and "nil" not in (kind, second):
            raise TemplateError(f"cannot compare {kind} and {second}")
        if kind == second and first == other:
            return True
    return False


def _lt(first: Any, second: Any) -> bool:
    kind, other = _basic(first), _basic(second)
    if kind != other:
        raise TemplateError(f"cannot compare {kind} and {other}")
    if kind not in (*_NUMBERS, "string"):
        raise TemplateError(f"cannot order {kind}")
    found: bool = first < second
    return found


def _sprint(*values: Any) -> str:
    """Concatenate, with a space between operands when neither is a string."""
    parts: list[str] = []
    for at, value in enumerate(values):
        if at and not isinstance(value, str) and not isinstance(values[at - 1], str):
            parts.append(" ")
        parts.append(to_text(value))
    return "".join(parts)


def _printf(form: Any, *values: Any) -> str:
    if not isinstance(form, str):
        raise TemplateError(f"printf takes a format first, found {kind_of(form)}")
    return sprintf(form, values)


def _plain(values: tuple[Any, ...]) -> str:
    return values[0] if len(values) == 1 and isinstance(values[0], str) else _sprint(*values)


def _js(*values: Any) -> str:
    quoted = json.dumps(_plain(values), ensure_ascii=False)[1:-1]
    for char in "<>&=":
        quoted = quoted.replace(char, f"\\u{ord(char):04X}")
    return quoted.replace("'", "\\'")


def _html(*values: Any) -> str:
    escaped = html.escape(_plain(values), quote=False)
    return escaped.replace('"', "&#34;").replace("'", "&#39;").replace("\0", "\ufffd")


def parse_int(text: Any, radix: Any, bits: Any) -> int:
    """Parse an unsigned integer in a radix (Go's strconv.ParseUint)."""
    if not isinstance(text, str) or not isinstance(radix, int) or not isinstance(bits, int):
        raise TemplateError("parseInt takes a text, a radix and a number of bits")
    digits = text.replace("_", "") if radix == 0 else text
    if not (radix == 0 or 2 <= radix <= 36) or not 0 <= bits <= 64:
        raise TemplateError(f"parseInt: radix {radix} with {bits} bits does not exist")
    try:
        if not digits.isascii() or not digits.isalnum() or len(digits) > 100:
            raise ValueError
        legacy = radix == 0 and digits[0] == "0" and digits[1:].isdigit()
        value = int(digits, 8 if legacy else radix)
    except ValueError:
        raise TemplateError(f'parseInt: "{text[:80]}" is not a number of radix {radix}') from None
    if value >= 1 << (bits or 64):
        raise TemplateError(f'parseInt: "{text[:80]}" does not fit in {bits or 64} bits')
    return value


FUNCTIONS: Final[dict[str, tuple[int, int | None, Callable[..., Any]]]] = {
    # name: minimum and maximum number of arguments (None: unlimited), implementation
    "eq": (1, None, _eq),
    "ne": (2, 2, lambda first, second: not _eq(first, second)),
    "lt": (2, 2, _lt),
    "le": (2, 2, lambda first, second: _lt(first, second) or _eq(first, second)),
    "gt": (2, 2, lambda first, second: not (_lt(first, second) or _eq(first, second))),
    "ge": (2, 2, lambda first, second: not _lt(first, second)),
    "not": (1, 1, lambda value: not is_true(value)),
    "index": (1, None, _index),
    "slice": (1, None, _slice),
    "len": (1, 1, _len),
    "print": (0, None, _sprint),
    "println": (0, None, lambda *values: " ".join(map(to_text, values)) + "\n"),
    "printf": (1, None, _printf),
    "html": (0, None, _html),
    "js": (0, None, _js),
    "urlquery": (0, None, lambda *values: quote_plus(_plain(values))),
    "parseInt": (3, 3, parse_int),
}
LAZY: Final = frozenset({"and", "or"})
