"""Defaults that the API server fills in, for the fields that DNS and the simulated controllers read.

Path: document.py (a decoded object) -> here -> validation.py; everything after that finds the fields set.
Source: k8s.io/kubernetes 1.36 pkg/apis/{core,discovery,apps,batch}/v1/defaults.go, and for Services
        pkg/registry/core/service/storage/{storage,alloc}.go.
Rule 1: DEFAULTS is the only place; docs/sources.md has the same rows, which a test compares.
Rule 2: an object that has all fields, such as one from a dump, is returned as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hsdns.cluster.controllers.kinds import PodIP, PodState
from hsdns.cluster.objects import ServiceSpec

T = TypeVar("T", bound=msgspec.Struct)

NAME_LABEL: Final = "kubernetes.io/metadata.name"
_ABSENT: Final = (None,)  # a pointer in the API's Go type
_EMPTY: Final = (None, "")  # a string there, for which "" is the same as absent
_CONTAINERS: Final = ("containers", "initContainers")


class Default(NamedTuple):
    """One field and its default.

    `field` is a path in the names of the API, where `[]` stands for each item of a list.  The field is set if its value
    is one of `unset` (None: any value): to `value`, or to the result of `value` for the struct that has the field; a
    result of None changes nothing.
    """

    kinds: tuple[str, ...]
    field: str
    text: str  # the default in words
    value: object | Callable[[Any], object]
    unset: tuple[object, ...] | None = _ABSENT


def _ip_family_policy(spec: ServiceSpec) -> str | None:
    if spec.type == "ExternalName":
        return None
    headless = spec.cluster_ip == "None"
    return "RequireDualStack" if headless and not spec.selector else "SingleStack"


def _pod_ips(status: PodState) -> list[PodIP] | None:
    first = PodIP(status.pod_ip or "")
    return [first] if first.ip and (status.pod_ips or [])[:1] != [first] else None


DEFAULTS: Final = (
    Default(("Service",), "spec.type", "`ClusterIP`", "ClusterIP", _EMPTY),
    Default(("Service",), "spec.ports[].protocol", "`TCP`", "TCP", _EMPTY),
    Default(
        ("Service",),
        "spec.ports[].targetPort",
        "the `port`",
        lambda port: port.port,
        (*_EMPTY, 0),
    ),
    Default(
        ("Service",),
        "spec.clusterIPs",
        "the `clusterIP`",
        lambda spec: [spec.cluster_ip] if spec.cluster_ip else None,
        (None, []),
    ),
    Default(
        ("Service",),
        "spec.ipFamilyPolicy",
        "`SingleStack`; `RequireDualStack` for a headless Service without selector; none for an ExternalName",
        _ip_family_policy,
    ),
    Default(("EndpointSlice",), "ports[].name", '`""`', ""),
    Default(("EndpointSlice",), "ports[].protocol", "`TCP`", "TCP"),
    Default(("Endpoints",), "subsets[].ports[].protocol", "`TCP`", "TCP", _EMPTY),
    Default(
        ("Namespace",),
        "metadata.labels",
        f"`{NAME_LABEL}` is always the name",
        lambda metadata: {**(metadata.labels or {}), NAME_LABEL: metadata.name},
        None,
    ),
    *(
        Default(("Pod",), f"spec.{containers}[].ports[].protocol", "`TCP`", "TCP", _EMPTY)
        for containers in _CONTAINERS
    ),
    Default(("Pod",), "spec.dnsPolicy", "`ClusterFirst`", "ClusterFirst", _EMPTY),
    Default(
        ("Pod",),
        "status.podIPs",
        "the `podIP`, which also counts if the first of them differs",
        _pod_ips,
        None,
    ),
    *(
        Default(
            ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job"),
            f"spec.template.spec.{containers}[].ports[].protocol",
            "`TCP`",
            "TCP",
            _EMPTY,
        )
        for containers in _CONTAINERS
    ),
    Default(
        ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job"),
        "spec.template.spec.dnsPolicy",
        "`ClusterFirst`",
        "ClusterFirst",
        _EMPTY,
    ),
    Default(("StatefulSet", "Deployment", "ReplicaSet"), "spec.replicas", "1", 1),
    Default(
        ("Job",),
        "spec.completions",
        "1 if `parallelism` is absent, too",
        lambda spec: 1 if spec.parallelism is None else None,
    ),
    Default(("Job",), "spec.parallelism", "1", 1),
    Default(("Job",), "spec.completionMode", "`NonIndexed`", "NonIndexed"),
    Default(("Job",), "spec.suspend", "`false`", False),
)

_Step = tuple[str, bool]  # the name in the API, and whether it is a list


def _steps(field: str) -> tuple[_Step, ...]:
    return tuple((word.removesuffix("[]"), word.endswith("[]")) for word in field.split("."))


_BY_KIND: Final = {
    kind: [(row, _steps(row.field)) for row in DEFAULTS if kind in row.kinds]
    for kind in sorted({kind for row in DEFAULTS for kind in row.kinds})
}


def with_defaults(kind: str, found: T) -> T:
    """The object with all defaults of its kind filled in."""
    for row, path in _BY_KIND.get(kind, ()):
        found = _filled(found, path, row)
    return found


def _filled(found: T, path: Sequence[_Step], row: Default) -> T:
    (step, is_list), *below = path
    name = _attributes(type(found))[step]
    value = getattr(found, name)
    filled: object
    if not below:
        if row.unset is not None and value not in row.unset:
            return found
        filled = row.value(found) if callable(row.value) else row.value
        if filled is None or filled == value:
            return found
    elif value is None:
        return found
    elif is_list:
        filled = [_filled(each, below, row) for each in value]
        if all(new is old for new, old in zip(filled, value, strict=True)):
            return found
    else:
        filled = _filled(value, below, row)
        if filled is value:
            return found
    return msgspec.structs.replace(found, **{name: filled})


@cache
def _attributes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The attributes of a struct by their names in the API."""
    return {each.encode_name: each.name for each in msgspec.structs.fields(struct)}
