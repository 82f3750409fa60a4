"""Duplicate keys of a mapping, as in two manifests without "---" between them; the second would replace the first.

Path: manifest_yaml.py finds them -> manifest_file.py refuses the document; for JSON, decode_json() finds them.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from hsdns.sources.manifest_yaml import DuplicateKey, ManifestLoader, shown

_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})


class Decoded(NamedTuple):
    """An object in JSON; its numbers are text.  `value` is None if not all of it is valid."""

    value: Any
    duplicates: list[DuplicateKey]


def sentence(found: DuplicateKey) -> str:
    """A sentence about where the key occurs first, and what to do."""
    remedy = "remove one of the two"
    if found.is_outermost and found.key in _OF_EVERY_OBJECT:
        remedy = 'write "---" between two objects'
    return f'the key "{shown(found.key)}" is already in line {found.first}; {remedy}'


def decode_json(text: bytes, line: int) -> Decoded:
    """Decode JSON, whose first line has the number `line`; raise RecursionError.

    For duplicate keys in a text beyond the limits of manifest_yaml.py, raise YAMLError.
    """
    has_duplicates = False

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        found = dict(pairs)
        has_duplicates = has_duplicates or len(found) < len(pairs)
        return found

    # The time for a long number grows with the square of its length.
    try:
        value = json.loads(text, object_pairs_hook=make, parse_int=str, parse_float=str)
    except ValueError:
        return Decoded(None, [])  # such as octets that are not UTF-8 in a field that is not read
    return Decoded(value, _positions(text, line) if has_duplicates else [])


def _positions(text: bytes, line: int) -> list[DuplicateKey]:
    """Find the lines; JSON is a subset of YAML, whose nodes have them.  Raise YAMLError beyond the limits of YAML."""
    loader = ManifestLoader(text)
    loader.get_single_data()
    return [
        each._replace(first=each.first + line - 1, line=each.line + line - 1, is_outermost=False)
        for each in loader.take_duplicates()
    ]
