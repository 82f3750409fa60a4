"""One pod that is read on demand, as a program in it looks up names; stores have no pods, or their addresses only.

Path: explanation/asking_pod.py -> the source's read_pod() -> resolver/pod.py makes the pod's resolv.conf of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hsdns.cluster.controllers.kinds import PodSpec


class PodUnreadable(Exception):
    """Why a pod is not there or cannot be read, as a sentence for the operator."""


class PodReading(NamedTuple):
    """A pod as its source has it now.

    `denied` has the transports over which NetworkPolicies keep it from the cluster's DNS, each with a sentence; it is
    None where these are not read.
    """

    spec: PodSpec
    addresses: tuple[str, ...]
    denied: Mapping[str, str] | None
