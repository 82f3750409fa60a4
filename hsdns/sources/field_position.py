"""Position of a field: the line of `spec.ports[0].port` in the text of an object.

Path: manifest_file.py (an error about a field) -> here -> the line in the message.
Rule 1: lines come from the nodes that PyYAML composes before it makes values; they are kept with each object of a file
        only while that object is checked.
Rule 2: a field that is not in the text has the line of its nearest parent that is.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from hsdns.sources.manifest_yaml import ManifestLoader

# `.name`, `[0]` or, for keys with dots, `[app.kubernetes.io/name]`
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def field_line(node: Any, field: str) -> int:
    """The line, from 1, of a field below a YAML node."""
    return field_place(node, field)[0]


def field_place(node: Any, field: str) -> tuple[int, int]:
    """The line and the column, from 1, of a field below a YAML node."""
    top = node
    for bracketed, word in _STEP.findall(field):
        step = bracketed or word
        found = _child(node, step)
        if found is None:
            break
        node = found
    if isinstance(node, yaml.MappingNode) and node is not top:
        for key, value in node.value:
            is_text = value.tag == "tag:yaml.org,2002:str" or not isinstance(value, yaml.ScalarNode)
            if not is_text and field.endswith(("labels", "annotations", "selector")):
                return _place(key)
    return _place(node)


def field_node(node: Any, field: str) -> Any:
    """The YAML node of a field, None if it is not in the text."""
    for bracketed, word in _STEP.findall(field):
        node = _child(node, bracketed or word)
    return node


def key_line(node: Any, parent: str, key: str) -> int:
    """The line, from 1, of a key in the mapping `parent`; the node's line if there is no such key."""
    mapping = node
    for bracketed, word in _STEP.findall(parent):
        mapping = _child(mapping, bracketed or word)
    listed = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    found = next((each for each, _ in listed if each.value == key), node)
    return int(found.start_mark.line) + 1


def json_node(text: bytes) -> Any:
    """The node of an object in JSON, read as YAML; None if it is not YAML."""
    try:
        return yaml.compose(text, Loader=ManifestLoader)
    except yaml.YAMLError:
        return None


def _place(node: Any) -> tuple[int, int]:
    return int(node.start_mark.line) + 1, int(node.start_mark.column) + 1


def _child(node: Any, step: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)]
    return None
