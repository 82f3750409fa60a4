"""How similar the labels of a pod are to a selector that does not match them.

Path: explanation/candidates.py and rules/checks/services.py -> here.
"""

from __future__ import annotations

from collections.abc import Mapping


def likeness(selector: Mapping[str, str], labels: Mapping[str, str]) -> int:
    """The number of the selector's keys and values that the labels have."""
    values = set(labels.values())
    return sum((key in labels) + (value in values) for key, value in selector.items())
