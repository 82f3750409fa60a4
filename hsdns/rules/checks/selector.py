"""HS101: a selector that matches no pod, although intended pods exist.

Path: judging.py -> here -> rules/pod_index.py.
Rule: pods outside the files may have the labels, for example those of operators.  So without the whole cluster there is
      a finding only if a workload is clearly the intended one: one label is misspelt, or has another key, or the
      workload has the Service's name and none of the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hsdns.cluster.likeness import likeness
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import MADE_LABELS, Objects, PodSet
from hsdns.rules.pod_index import PodIndex, is_misspelt

# Labels that all workloads of an installation have; their values do not identify a workload.
_OF_INSTALLATION: Final = frozenset(
    "app.kubernetes.io/instance app.kubernetes.io/part-of app.kubernetes.io/managed-by release heritage".split()
)


@check("HS101")
def selector(objects: Objects) -> Iterator[Remark]:
    """Selectors that match no pod."""
    indexes: dict[str, PodIndex] = {}  # by namespace
    for manifest, service in objects.services:
        wanted = service.spec.selector
        if not wanted or service.spec.type == "ExternalName" or objects.selected(manifest, wanted):
            continue
        near = []
        for namespace, positions in objects.near_pods(manifest):
            if namespace not in indexes:
                listed = ((each, objects.pod_sets[each]) for each in positions)
                indexes[namespace] = PodIndex(listed)
            near.append(indexes[namespace])
        meant = [
            (likeness(wanted, pods.labels), -position)
            for index in near
            for position, pods in index.likely(manifest.name, wanted)
            if _is_meant(wanted, pods, manifest)
        ]
        if not (meant or objects.is_whole):
            continue
        found = meant or [each for index in near if (each := index.nearest(wanted)) is not None]
        nearest = objects.pod_sets[-max(found)[1]] if found else None
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
    return is_misspelt(value, found)


def _shown(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
