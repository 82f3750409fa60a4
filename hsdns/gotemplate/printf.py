"""Go's fmt.Sprintf, for the `printf` of templates.

Path: functions.py.
Source: the documentation of Go's fmt package.
Rule 1: as in Go, it never fails: a value that does not match its verb becomes `%!d(string=hi)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from hsdns.gotemplate.values import Missing, Record, to_text

MAX_WIDTH: Final = 1000
_VERB: Final = re.compile(
    r"%(?P<flags>[-+# 0]*)(?P<index>\[\d+\])?(?P<width>\d+|\*)?(?:\.(?P<precision>\d+|\*)?)?"
    r"(?P<last>\[\d+\])?(?P<verb>.)?",
    re.DOTALL,
)
_KINDS: Final = ((bool, "bool"), (int, "int"), (float, "float64"), (str, "string"))


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
        return (
            f"%!{verb}({_kind(value)}={to_text(value)})"
            if value is not None
            else f"%!{verb}(<nil>)"
        )
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
    if isinstance(value, Record):
        return value.kind
    found = next((name for kind, name in _KINDS if isinstance(value, kind)), "")
    return found or (
        "[]interface {}" if isinstance(value, list) else "<nil>" if value is None else "map"
    )
