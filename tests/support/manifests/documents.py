"""YAML documents of files in the tree, read as fast as the installed PyYAML can.

Path: tests/support/scenarios/scenario.py reads manifests and events with it, tests of docs an OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

# Ten times as fast as SafeLoader, but not in every build of PyYAML.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def documents(text: str) -> Iterator[Any]:
    """Read all documents; raise yaml.YAMLError."""
    return yaml.load_all(text, _Loader)  # noqa: S506, RUF100 - both are safe loaders
