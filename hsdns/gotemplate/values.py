"""Values of templates: strings, numbers, lists, maps and records with fields.

Path: the plugin makes a Record of a query; evaluate.py and functions.py use these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hsdns.expression.values import to_text as plain_to_text
from hsdns.gotemplate.fault import TemplateError


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


def kind_of(value: object) -> str:
    """Return the name of a value's kind for error messages."""
    if isinstance(value, Record):
        return value.kind
    for kind, name in (
        (bool, "bool"), (int, "int"), (float, "float64"), (str, "string"), (list, "slice"), (dict, "map"),
    ):  # fmt: skip
        if isinstance(value, kind):
            return name
    return "nil"


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
