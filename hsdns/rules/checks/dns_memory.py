"""HS216: memory that the pods of the cluster's DNS use, beside their limit.

Path: judging.py -> here <- the objects PodMetrics, which sources/cluster_dump.py reads where they are served.
Rule: a container without a limit of its own is not near one, whatever its node has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.rules.check import check
from hsdns.rules.checks.dns_pods import dns_pods
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects

METRICS: Final = "PodMetrics"  # of metrics.k8s.io
NEAR: Final = Decimal("0.8")  # of the limit
_QUANTITY: Final = re.compile(
    r"(\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:([eE][-+]?\d{1,2})|([numkMGTPE]?|[KMGTPE]i))"
)
_FACTORS: Final = {
    "": Decimal(1),
    **{each: Decimal(1000) ** power for each, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)},
    **{f"{each}i": Decimal(1024) ** power for power, each in enumerate("KMGTPE", 1)},
}  # fmt: skip


@check("HS216")
def near_limit(objects: Objects) -> Iterator[Remark]:
    """DNS containers that use most of the memory that they may."""
    metrics = {(each.namespace, each.name): each for each in objects.written(METRICS)}
    for pods in dns_pods(objects):
        manifest = pods.manifest
        found = metrics.get((manifest.namespace, manifest.name))
        if found is None or not isinstance(manifest.object, PodManifest):
            continue
        used = _memory(found, "containers", "usage")
        limits = _memory(manifest, "spec.containers", "resources.limits")
        for name, (at, limit) in limits.items():
            _, use = used.get(name, (0, ""))
            octets, most = _octets(use), _octets(limit)
            if octets is None or not most or octets < NEAR * most:
                continue
            yield manifest.remark(
                f"spec.containers[{at}].resources.limits.memory",
                f"container {name} of the cluster's DNS uses {octets * 100 // most} % of the memory that it may ({use} "
                f"of {limit}), and is killed when it needs more, with the queries in progress; raise the limit, and "
                "see who asks so much",
            )


def _memory(manifest: Manifest, path: str, inner: str) -> dict[str, tuple[int, str]]:
    """The memory of each container, with the position of the container."""
    listed = _at(manifest.content, path)
    found = {}
    for at, each in enumerate(listed if isinstance(listed, list) else ()):
        value = _at(each, f"{inner}.memory")
        if value is not None:
            found[str(_at(each, "name"))] = at, str(value)
    return found


def _octets(text: str) -> Decimal | None:
    """A quantity of the API in octets; None if it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, exponent, unit = found.groups()
    return Decimal(f"{number}{exponent or ''}") * _FACTORS[unit or ""]


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
