"""Facts about YAML, JSON and TOML in a table: `PATH = VALUE`, in the section of a file or of what a program renders.

A path has the names and the numbers that lead to the value, with `*` for each one and `NAME=TEXT` for the one that has
it.  Values are compared as they are written in YAML, so 53 and "53" are the same; `null` is for what is not there.
Path: tests only.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml


def read(path: Path) -> Any:
    """The content of a file, with texts for all values; several objects by kind and name."""
    text = path.read_text()
    if path.suffix == ".toml":
        text = yaml.safe_dump(tomllib.loads(text))
    return by_kind(list(yaml.load_all(text, yaml.BaseLoader)))


def by_kind(objects: list[Any]) -> Any:
    """Objects of Kubernetes by kind and name; another document as it is."""
    if "metadata" not in objects[0]:
        return objects[0]
    found: dict[str, dict[str, Any]] = {}
    for each in objects:
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    return found


def value_at(value: Any, path: str) -> Any:
    """The value at a path, None if there is none."""
    word, _, rest = path.partition("/")
    if not word or value is None:
        return value
    if word == "*":
        return [value_at(each, rest) for each in (value.values() if isinstance(value, dict) else value)]  # fmt: skip
    name, equals, text = word.partition("=")
    if equals:
        value = next((each for each in value if each.get(name) == text), None)
    else:
        value = value[int(word)] if isinstance(value, list) else value.get(word)
    return value_at(value, rest)


def different(value: Any, facts: str) -> list[str]:
    """The facts that are none, with what is there instead."""
    found = []
    for line in filter(None, facts.splitlines()):
        path, _, expected = line.partition(" = ")
        there = value_at(value, path)
        if _as_written(there) != yaml.load(expected, yaml.BaseLoader):
            found.append(f"{path} = {there}, not {expected}")
    return found


def _as_written(value: Any) -> Any:
    """A value with `null` for what is not there."""
    if isinstance(value, list):
        return [_as_written(each) for each in value]
    return "null" if value is None else value
