"""Values of templates, and the predefined functions.

Path: evaluate.py calls them; it implements `and` and `or` itself, because they short-circuit.
Source: Go's text/template/funcs.go.

sprintf():
Source: the documentation of Go's fmt package.
Rule: as in Go, it never fails: a value that does not match its verb becomes `%!d(string=hi)`.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

from hsdns.expression.builtins import to_text as plain_to_text
from hsdns.gotemplate.tree import TemplateError


class Method(NamedTuple):
    """The value of a field that takes arguments: `.Meta "label"`."""

    arguments: int
    call: Callable[..., object]


class Record:
    """Fields by name, like a struct in Go; `kind` is the name of its type."""

    __slots__ = ("fields", "kind")

    def __init__(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.kind = kind
        self.fields = fields


class StringMap(dict[str, str]):
    """A map of strings: index returns "" for absent keys."""


class Missing:
    """An absent key of a map with values of any type; printed as `<no value>`."""


MISSING: Final = Missing()


_KINDS: Final = (
    (bool, "bool"), (int, "int"), (float, "float64"), (str, "string"), (list, "slice"), (dict, "map"),
)  # fmt: skip


def kind_of(value: object) -> str:
    """Return the name of a value's kind for error messages."""
    if isinstance(value, Record):
        return value.kind
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "nil")


def is_true(value: object) -> bool:
    """Whether a condition is true: not zero or empty."""
    return isinstance(value, Record | Method) or (bool(value) and value is not MISSING)


def field_of(holder: Any, name: str) -> Any:
    """Return a field of a record or a value of a map; raise TemplateError."""
    if isinstance(holder, Record):
        if name in holder.fields:
            return holder.fields[name]
        raise TemplateError(f"there is no field {name} in {holder.kind}")
    if isinstance(holder, dict):
        return holder.get(name, MISSING)
    raise TemplateError(f"there is no field {name} in a value of kind {kind_of(holder)}")


def to_text(value: object) -> str:
    """Format a value as templates print it."""
    if isinstance(value, Missing):
        return "<no value>"
    if isinstance(value, Record):
        shown = (found for found in value.fields.values() if not isinstance(found, Method))
        return "{" + " ".join(map(to_text, shown)) + "}"
    if isinstance(value, list):
        return f"[{' '.join(map(to_text, value))}]"
    return plain_to_text(value)


MAX_WIDTH: Final = 1000
_VERB: Final = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<index>\[\d+\])?(?P<width>\d+|\*)?(?:\.(?P<precision>\d+|\*)?)?"
    r"(?P<last>\[\d+\])?(?P<verb>.)?",
    re.DOTALL,
)


def sprintf(form: str, values: Sequence[Any]) -> str:
    """Format values by the verbs of a format string."""
    parts: list[str] = []
    at, used, chosen = 0, 0, False
    for found in _VERB.finditer(form):
        parts.append(form[at : found.start()])
        at = found.end()
        verb = found["verb"]
        if verb is None:
            parts.append("%!(NOVERB)")
            continue
        if verb == "%":
            parts.append("%")
            continue
        for index in (found["index"], found["last"]):
            if index:
                used, chosen = int(index[1:-1]) - 1, True
        sizes: list[int | None] = []
        for size in (found["width"], found["precision"]):
            if size == "*":
                taken = values[used] if used < len(values) else 0
                used += 1
                sizes.append(taken if isinstance(taken, int) else 0)
            else:
                sizes.append(int(size) if size else None)
        if "." in found[0] and sizes[1] is None and verb != ".":
            sizes[1] = 0
        if not 0 <= used < len(values):
            parts.append(f"%!{verb}(BADINDEX)" if chosen else f"%!{verb}(MISSING)")
            continue
        width, precision = (None if size is None else min(size, MAX_WIDTH) for size in sizes)
        parts.append(_show(values[used], verb, found["flags"], width, precision))
        used += 1
    parts.append(form[at:])
    if not chosen and used < len(values):
        extra = ", ".join(f"{_kind(value)}={to_text(value)}" for value in values[used:])
        parts.append(f"%!(EXTRA {extra})")
    return "".join(parts)


def _show(value: Any, verb: str, flags: str, width: int | None, precision: int | None) -> str:
    if isinstance(value, list) and verb not in "vT":
        items = " ".join(_show(item, verb, flags, width, precision) for item in value)
        return f"[{items}]"
    if width is not None and width < 0:
        flags, width = flags + "-", -width
    shown = _verb(value, verb, flags, precision)
    if shown is None:
        return f"%!{verb}({'<nil>' if value is None else f'{_kind(value)}={to_text(value)}'})"
    if width is None or len(shown) >= width:
        return shown
    if "-" in flags:
        return shown.ljust(width)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if "0" in flags and not (is_whole and precision is not None):
        sign = shown[0] if shown[:1] in ("+", "-", " ") and not isinstance(value, str) else ""
        return sign + shown[len(sign) :].rjust(width - len(sign), "0")
    return shown.rjust(width)


def _verb(value: Any, verb: str, flags: str, precision: int | None) -> str | None:
    """Format a value by a verb; None if they do not match."""
    if verb == "v":
        return to_text(value) if not isinstance(value, Missing) else "<nil>"
    if verb == "T":
        return _kind(value)
    if isinstance(value, bool):
        return to_text(value) if verb == "t" else None
    if isinstance(value, int):
        return _whole(value, verb, flags, precision)
    if isinstance(value, float):
        return _decimal(value, verb, flags, precision)
    if isinstance(value, str):
        return _text(value, verb, flags, precision)
    return None


def _whole(value: int, verb: str, flags: str, precision: int | None) -> str | None:
    if verb == "c":
        return chr(value) if 0 <= value < 0x110000 and not 0xD800 <= value < 0xE000 else "\ufffd"
    if verb == "q":
        return f"'{chr(value)}'" if 0x20 <= value < 0x7F else None
    if verb == "U":
        return f"U+{value:04X}"
    forms = {"d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
    if verb not in forms:
        return None
    digits = format(abs(value), forms[verb])
    if precision is not None:
        digits = digits.rjust(precision, "0")
    prefix = {"x": "0x", "X": "0X", "o": "0", "b": "0b"}.get(verb, "") if "#" in flags else ""
    if verb == "O":
        prefix = "0o"
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    return sign + prefix + digits


def _decimal(value: float, verb: str, flags: str, precision: int | None) -> str | None:
    if verb not in "eEfFgG":
        return None
    if precision is None and verb in "gG":
        shown = to_text(value)
        shown = shown.upper() if verb == "G" else shown
    else:
        shown = format(value, f".{6 if precision is None else precision}{verb}")
    if value >= 0 and not shown.startswith("+"):
        shown = ("+" if "+" in flags else " " if " " in flags else "") + shown
    return shown


def _text(value: str, verb: str, flags: str, precision: int | None) -> str | None:
    if precision is not None and verb in "sqxX":
        value = value[:precision]
    if verb == "s":
        return value
    if verb == "q":
        if "#" in flags and "`" not in value:
            return f"`{value}`"
        return json.dumps(value, ensure_ascii="+" in flags).replace("\\/", "/")
    if verb in "xX":
        digits = value.encode().hex(*(" ",) if " " in flags else ())
        return digits.upper() if verb == "X" else digits
    return None


def _kind(value: object) -> str:
    """Return the name of a value's type as fmt writes it."""
    kind = kind_of(value)
    return {"slice": "[]interface {}", "nil": "<nil>"}.get(kind, kind)


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
    if kind not in ("bool", "int", "float64", "string", "nil"):
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
