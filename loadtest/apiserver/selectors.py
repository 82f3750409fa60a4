"""Label and field selectors of the Kubernetes API, as the fake API server applies them.

Path: fake_cluster.py reads namespace, `labelSelector` and `fieldSelector` of a request into a Selection.
Source: Kubernetes documentation, "Labels and Selectors" and "Field Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from loadtest.apiserver.watch_cache import Key, Stored

Selector = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUAL = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)")
_COMMA = re.compile(r",(?![^(]*\))")
_NAME = re.compile(r"(?:^|,)metadata\.name==?([^,]+)")


class Selection:
    """The objects of a kind that a request selects; raises ValueError if a selector cannot be parsed."""

    def __init__(self, namespace: str | None, labels: str = "", fields: str = "") -> None:
        self.namespace = namespace
        named = _NAME.search(fields)
        self.name = named[1] if named else None
        self.is_all = namespace is None and not labels and not fields
        self._selects = (parse_labels(labels), parse_fields(fields)) if labels or fields else ()

    def matches(self, key: Key, stored: Stored) -> bool:
        """Whether an object is selected; it is decoded only if a selector needs its fields."""
        if self.is_all:
            return True
        if self.namespace is not None and key[0] != self.namespace:
            return False
        if not self._selects:
            return True
        manifest = stored.manifest
        return all(selects(manifest) for selects in self._selects)


def parse_labels(text: str) -> Selector:
    """Read a label selector: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, joined by commas."""
    terms = [_label_term(term.strip()) for term in _COMMA.split(text) if term.strip()]
    return lambda manifest: all(term(manifest["metadata"].get("labels") or {}) for term in terms)


def parse_fields(text: str) -> Selector:
    """Read a field selector: dotted paths compared with `=`, `==` or `!=`, joined by commas."""
    terms = [_field_term(term.strip()) for term in text.split(",") if term.strip()]
    return lambda manifest: all(term(manifest) for term in terms)


def _label_term(term: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(term):
        key, operator, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.fullmatch(term):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if term.startswith("!"):
        return lambda labels: term[1:] not in labels
    return lambda labels: term in labels


def _field_term(term: str) -> Selector:
    found = _EQUAL.fullmatch(term)
    if found is None:
        raise ValueError(f'field selector "{term}" is not PATH=VALUE or PATH!=VALUE')
    path, operator, value = found.groups()
    if operator == "!=":
        return lambda manifest: _field(manifest, path) != value
    return lambda manifest: _field(manifest, path) == value


def _field(manifest: Mapping[str, Any], path: str) -> str:
    at: Any = manifest
    for step in path.split("."):
        at = at.get(step) if isinstance(at, Mapping) else None
    return "" if at is None else str(at)
