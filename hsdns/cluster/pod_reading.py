"""One pod, read on demand for the way a program in it looks up names; stores have no pods, or only their addresses.

Path: explanation/live.py -> the source's read_pod() -> resolver/resolv_conf.py makes the pod's resolv.conf of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hsdns.cluster.controllers.kinds import PodSpec


class PodUnreadable(Exception):
    """The pod does not exist or cannot be read; the message is a sentence for the operator."""


class PodReading(NamedTuple):
    """A pod as its source has it now.

    `denied` has the transports over which NetworkPolicies block the cluster's DNS for it, each with a sentence; None if
    NetworkPolicies are not read.
    """

    spec: PodSpec
    addresses: tuple[str, ...]
    denied: Mapping[str, str] | None
