"""HS101: a selector that matches no pod, although pods for it are there.

Path: judging.py -> here.
Rule: pods that are not among the files may have the labels; operators make such pods.  So without the whole cluster
      something is said only if a workload is surely the one that was meant: one label is misspelt, or has another key,
      or the workload has the Service's name and none of the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Final

from hsdns.cluster.likeness import likeness
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import MADE_LABELS, Objects, PodSet, is_near

_MISSPELT: Final = 0.75  # difflib's ratio of two words
_SHORTEST: Final = 4  # letters of a word that can be told from another

# Labels that all workloads of an installation have; their value says nothing of which one it is.
_OF_INSTALLATION: Final = frozenset(
    "app.kubernetes.io/instance app.kubernetes.io/part-of app.kubernetes.io/managed-by release heritage".split()
)


@check("HS101")
def selector(objects: Objects) -> Iterator[Remark]:
    """Selectors that match no pod."""
    for manifest, service in objects.services:
        wanted = service.spec.selector
        if not wanted or service.spec.type == "ExternalName" or objects.selected(manifest, wanted):
            continue
        pods = [each for each in objects.pod_sets if is_near(each.manifest, manifest)]
        meant = [each for each in pods if _is_meant(wanted, each, manifest)]
        nearest = max(meant or pods, key=lambda each: likeness(wanted, each.labels), default=None)
        if not (meant or objects.is_whole):
            continue
        if nearest is None:
            sentence = f"{_shown(wanted)} matches no pod: there is none in the namespace"
            yield manifest.remark("spec.selector", sentence)
            continue
        different = [key for key, value in wanted.items() if nearest.labels.get(key) != value]
        keys = [
            *different,
            *(key for key, value in nearest.labels.items() if value in wanted.values()),
        ]
        has = {key: nearest.labels[key] for key in dict.fromkeys(keys) if key in nearest.labels}
        shown = (
            _shown(has) if has else _shown(dict(sorted(nearest.labels.items())[:2])) or "no labels"
        )
        yield manifest.remark(
            "spec.selector",
            f"{_shown(wanted)} matches no pod, so the Service has no endpoints; the nearest pods, those of "
            f"{nearest.manifest}, have {shown}; write the same labels in both",
            at=f"spec.selector[{different[0]}]" if different else "",
        )


def _is_meant(wanted: Mapping[str, str], pods: PodSet, manifest: Manifest) -> bool:
    labels = pods.labels
    differing = {
        key: value
        for key, value in wanted.items()
        if labels.get(key) != value and key not in MADE_LABELS
    }
    if not any(key in labels for key in wanted) and pods.manifest.name == manifest.name:
        return True
    if len(differing) != 1:
        return False
    ((key, value),) = differing.items()
    found = labels.get(key)
    if found is None:
        others = {other for other in labels if other not in wanted}
        if key not in _OF_INSTALLATION:
            others -= _OF_INSTALLATION
        return value not in ("true", "false") and any(labels[other] == value for other in others)
    return _is_misspelt(value, found)


def _is_misspelt(one: str, other: str) -> bool:
    """Whether two values differ in the letters of one word; `cache-1` and `cache-2` are two names."""
    words = re.split(r"[-_.]", one), re.split(r"[-_.]", other)
    pairs = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    if len(words[0]) != len(words[1]) or len(pairs) != 1:
        return False
    ((left, right),) = pairs
    is_word = left.isalpha() and right.isalpha() and min(len(left), len(right)) >= _SHORTEST
    return is_word and SequenceMatcher(None, left, right).ratio() >= _MISSPELT


def _shown(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
