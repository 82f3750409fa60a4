"""Objects that are read on demand: a store keeps packed values, and neither pods nor endpoints that are not ready.

Path: explanation/live.py, for a question -> the source's read() -> the objects that the question leads to.
Rule 1: what is asked for is bounded by the question: the objects of a few Services, their pods, their namespaces.
Rule 2: a part that cannot be read is a Fault; the others are given nevertheless.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.cluster.objects import Object
from hsdns.cluster.value import Key

MAX_PODS: Final = 500  # of a Service that are read
OTHER_PODS: Final = 50  # of the namespace, where a selector matches none


class Lead(NamedTuple):
    """What a question leads to: namespaces, Services (or ServiceImports, if `shared`), an address of pods as text."""

    namespaces: tuple[bytes, ...] = ()
    services: tuple[Key, ...] = ()
    address: str = ""
    shared: bool = False


class Fault(NamedTuple):
    """What could not be read, as a sentence; `kind` is the kind of its objects, "" for all."""

    sentence: str
    kind: str = ""


class Reading(NamedTuple):
    """Objects, and what could not be read."""

    objects: tuple[Object, ...] = ()
    faults: tuple[Fault, ...] = ()
