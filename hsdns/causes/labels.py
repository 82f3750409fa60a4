"""The pods that a selector means, though it does not match them.

Path: behind.py, rules/checks/services.py (a selector that matches no pod) -> here.
Rule: a workload is named only if its labels are near, or its name says that it is meant; else none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hsdns.cluster.objects import likeness


class Labelled(NamedTuple):
    """Pods with the same labels: those of a workload, or one pod; `place` is "Deployment web" or "pod web-1"."""

    place: str
    name: str
    labels: Mapping[str, str]


def nearest(
    name: str, selector: Mapping[str, str], candidates: Iterable[Labelled]
) -> Labelled | None:
    """The pods that the selector of Service `name` means; None if none is near."""
    found = [(likeness(selector, each.labels) + (each.name == name), each) for each in candidates]
    best = max(found, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] else None


def meant_labels(selector: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of pods that stand for those of a selector: the same keys, and other keys with the same values."""
    keys = [key for key, value in selector.items() if labels.get(key) not in (None, value)]
    keys += [key for key, value in labels.items() if value in selector.values()]
    return {key: labels[key] for key in dict.fromkeys(keys)}
