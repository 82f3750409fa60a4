"""Objects that are read on demand: a store keeps packed values, and neither pods nor endpoints that are not ready.

Path: explanation/live.py, for a question -> the source's read() -> the objects that the answer depends on.
Rule 1: the question bounds what is read: the objects of a few Services, their pods, their namespaces.
Rule 2: a part that cannot be read is a Fault; the other parts are returned.
A PodReading is one pod, read for the way a program in it looks up names: resolver/resolv_conf.py makes its resolv.conf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import PodSpec
from hsdns.cluster.objects import Object
from hsdns.cluster.value import Key

MAX_PODS: Final = 500  # pods of a Service that are read
OTHER_PODS: Final = 50  # pods of the namespace that are read if a selector matches none


class Lead(NamedTuple):
    """What to read for a question: namespaces, Services (or ServiceImports, if `shared`), a pod address as text."""

    namespaces: tuple[bytes, ...] = ()
    services: tuple[Key, ...] = ()
    address: str = ""
    shared: bool = False


class Fault(NamedTuple):
    """A sentence about what could not be read; `kind` is the kind of the objects, "" for all."""

    sentence: str
    kind: str = ""


class Reading(NamedTuple):
    """The objects read, and what could not be read."""

    objects: tuple[Object, ...] = ()
    faults: tuple[Fault, ...] = ()


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
