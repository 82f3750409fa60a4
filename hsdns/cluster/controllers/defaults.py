"""Defaults that the API server fills in, for the fields that DNS and the simulated controllers read.

Path: document.py (a decoded object) -> here -> validation.py; everything after that finds the fields set.
Source: k8s.io/kubernetes 1.36 pkg/apis/{core,discovery,apps,batch}/v1/defaults.go, and for Services
        pkg/registry/core/service/storage/{storage,alloc}.go.
Rule 1: DEFAULTS is the only place; docs/sources.md has the same rows, which a test compares.
Rule 2: no default depends on another one: they are all taken from the object as it was written.
Rule 3: an object that has all fields, such as one from a dump, is returned as it is.
"""

from __future__ import annotations

from collections.abc import Callable
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


class _Fields(NamedTuple):
    """The defaults of the fields of a struct, and those of the structs in its fields; by the names in the API."""

    own: dict[str, Default]
    below: dict[str, _Fields]  # of each item, if the field is a list


def _fields_of(kind: str) -> _Fields:
    found = _Fields({}, {})
    for row in DEFAULTS:
        if kind in row.kinds:
            *above, name = row.field.replace("[]", "").split(".")
            fields = found
            for step in above:
                fields = fields.below.setdefault(step, _Fields({}, {}))
            fields.own[name] = row
    return found


_BY_KIND: Final = {
    kind: _fields_of(kind) for kind in sorted({kind for row in DEFAULTS for kind in row.kinds})
}


def with_defaults(kind: str, found: T) -> T:
    """The object with all defaults of its kind filled in."""
    fields = _BY_KIND.get(kind)
    return found if fields is None else _filled(found, fields)


def _filled(found: T, fields: _Fields) -> T:
    attributes = _attributes(type(found))
    changed: dict[str, object] = {}
    filled: object
    for step, row in fields.own.items():
        name = attributes[step]
        value = getattr(found, name)
        if row.unset is None or value in row.unset:
            filled = row.value(found) if callable(row.value) else row.value
            if filled is not None and filled != value:
                changed[name] = filled
    for step, inner in fields.below.items():
        name = attributes[step]
        value = getattr(found, name)
        if isinstance(value, list):
            items = [_filled(each, inner) for each in value]
            if any(new is not old for new, old in zip(items, value, strict=True)):
                changed[name] = items
        elif value is not None and (filled := _filled(value, inner)) is not value:
            changed[name] = filled
    return msgspec.structs.replace(found, **changed) if changed else found


@cache
def _attributes(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The attributes of a struct by their names in the API."""
    return {each.encode_name: each.name for each in msgspec.structs.fields(struct)}
