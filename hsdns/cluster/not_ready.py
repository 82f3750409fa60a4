"""Why an endpoint is not ready, according to its conditions and those of its pod.

Path: explanation/ and rules/checks/endpoints.py -> here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.cluster.objects import Endpoint, Pod

AnyPod = TypeVar("AnyPod", Pod, PodManifest)


def is_ready(endpoint: Endpoint) -> bool:
    """Whether an endpoint is ready; one without the condition is."""
    return endpoint.conditions is None or endpoint.conditions.ready is not False


def pod_of(endpoint: Endpoint, pods: Sequence[AnyPod]) -> AnyPod | None:
    """The pod of an endpoint, if it is known."""
    ref = endpoint.target_ref
    return next((each for each in pods if ref and each.metadata.name == ref.name), None)


def why_not_ready(endpoint: Endpoint, pods: Sequence[AnyPod]) -> str:
    """The known conditions that make an endpoint not ready."""
    conditions = endpoint.conditions
    found = []
    if conditions is not None and conditions.terminating:
        found.append("terminating")
    pod = pod_of(endpoint, pods)
    found += [
        f"pod condition Ready is {each.status}" + (f": {each.reason}" if each.reason else "")
        for each in (pod.status.conditions or () if pod is not None else ())
        if each.type == "Ready" and each.status != "True"
    ]
    return "; ".join(found)
