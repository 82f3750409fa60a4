"""Defaults that the API server fills in, for the fields that DNS and the simulated controllers read.

Path: document.py (a decoded object) -> here -> validation.py; everything after that finds the fields set.
Source: k8s.io/kubernetes 1.36 pkg/apis/{core,discovery,apps,batch}/v1/defaults.go, and for Services
        pkg/registry/core/service/storage/{storage,alloc}.go.
Rule 1: DEFAULTS is the only place; docs/contributing/edge-cases.md has them, which a test compares.
Rule 2: no default depends on another one: they are all taken from the object as it was written.
Rule 3: an object that has all fields, such as one from a dump, is returned as it is.

Values that the API server refuses: in names, labels, addresses and ports:
Source: k8s.io/apimachinery pkg/util/validation and k8s.io/kubernetes pkg/apis/core/validation, 1.36.
Rule: where versions of Kubernetes differ, the value is accepted: names of Services may begin with a digit, those of
        StatefulSets may have dots, and an IPv4 address may be written as an IPv4-mapped one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.kinds import PodIP, PodState
from hsdns.cluster.controllers.network_policy import NAME_LABEL
from hsdns.cluster.objects import ServiceSpec

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
MAX_PORT: Final = 65_535
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")

# By the number of octets: addresses that mean something else on each host or link.
_SPECIAL: Final[dict[int, Sequence[tuple[Callable[[bytes], bool], str]]]] = {
    4: (
        (lambda octets: octets == bytes(4), "the unspecified address"),
        (lambda octets: octets[0] == 127, "a loopback address"),
        (lambda octets: octets[:2] == b"\xa9\xfe", "a link-local address"),
        (lambda octets: octets[:3] == b"\xe0\0\0", "a link-local multicast address"),
    ),
    16: (
        (lambda octets: octets == bytes(16), "the unspecified address"),
        (lambda octets: octets == bytes(15) + b"\1", "a loopback address"),
        (lambda octets: octets[0] == 0xFE and octets[1] >> 6 == 2, "a link-local address"),
        (
            lambda octets: octets[0] == 0xFF and octets[1] & 15 == 2,
            "a link-local multicast address",
        ),
    ),
}


class Refused(Exception):
    """Invalid content of a document, without its `file:line`; `field` is a path such as `spec.ports[0].port`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field


def check_label(field: str, text: str) -> None:
    """Check a DNS label (RFC 1123)."""
    if not _LABEL.fullmatch(text):
        raise Refused(
            field,
            f'"{text}" is not a DNS label; use at most 63 lower-case letters, digits and "-", without "-" at the ends',
        )


def check_name(field: str, text: str) -> None:
    """Check the name of an object whose kind allows dots in it."""
    if not _is_domain(text):
        raise Refused(
            field,
            f'"{text}" is not a valid name; use lower-case letters, digits, "-" and "."',
        )


def check_domain(field: str, text: str) -> None:
    """Check a domain name, with or without a final dot."""
    if _is_domain(text.removesuffix(".")):
        return
    remedy = 'use lower-case letters, digits, "-" and "."'
    if "://" in text or "/" in text:
        remedy = "write only the host, without scheme and path"
    elif re.fullmatch(r".*:[0-9]+", text):
        remedy = "write it without the port"
    elif _is_domain(text.lower().removesuffix(".")):
        remedy = "write it in lower case"
    raise Refused(field, f'"{text}" is not a domain name; {remedy}')


def check_labels(field: str, labels: Mapping[str, str] | None) -> None:
    """Check the keys and values of labels or of a selector."""
    for key, value in (labels or {}).items():
        prefix, slash, name = key.rpartition("/")
        if not _KEY.fullmatch(name) or (slash and not _is_domain(prefix)):
            raise Refused(
                f"{field}[{key}]",
                f'"{key}" is not the key of a label; write a name of at most 63 letters, digits, "-", "_" and ".", '
                'with or without "DOMAIN/" before it',
            )
        if value and not _KEY.fullmatch(value):
            raise Refused(
                f"{field}[{key}]",
                f'"{value}" is not the value of a label; use at most 63 letters, digits, "-", "_" and ".", '
                "with a letter or digit at the ends",
            )


def check_choice(field: str, text: str, what: str, choices: Sequence[str]) -> None:
    """Check that a text is one of several words; `what` has an article."""
    if text not in choices:
        listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise Refused(field, f'"{text}" is not {what}; write {listed}')


def check_address(field: str, text: str, remedy: str = "write one such as 10.96.0.10") -> None:
    """Check an IP address of any kind."""
    _packed(field, text, remedy)


def check_endpoint_address(field: str, text: str, family: str = "") -> None:
    """Check the address of an endpoint: of one family if it is given, and not only for this host or link."""
    octets = _packed(field, text, "write one such as 10.244.0.10")
    if family and family != ("IPv4" if len(octets) == 4 else "IPv6"):
        raise Refused(field, f'"{text}" is not an {family} address; correct it or the address type')
    for is_of, what in _SPECIAL[len(octets)]:
        if is_of(octets):
            raise Refused(
                field,
                f'"{text}" is {what}, which no endpoint may have; write the address that clients reach',
            )


def check_port(field: str, number: int, lowest: int = 1) -> None:
    """Check the number of a port."""
    if not lowest <= number <= MAX_PORT:
        raise Refused(
            field, f"{number} is not a port number; write one from {lowest} to {MAX_PORT}"
        )


def check_port_name(field: str, text: str) -> None:
    """Check the name of a container's port (RFC 6335)."""
    if not _PORT_NAME.fullmatch(text):
        raise Refused(
            field,
            f'"{text}" is not the name of a container port; use at most 15 lower-case letters, digits and single "-", '
            "with at least one letter",
        )


def check_unique(field: str, text: str, before: Collection[str], what: str) -> None:
    """Check that a text is not among those before it."""
    if text in before:
        raise Refused(field, f'{what} "{text}" is used twice; choose another')


def _is_domain(text: str) -> bool:
    return len(text) <= 253 and _DOMAIN.fullmatch(text) is not None


def _packed(field: str, text: str, remedy: str) -> bytes:
    octets = pack_address(text)
    if octets is None:
        raise Refused(field, f'"{text}" is not an IP address; {remedy}')
    return octets


T = TypeVar("T", bound=msgspec.Struct)

_ABSENT: Final = (None,)  # a pointer in the API's Go type
_EMPTY: Final = (None, "")  # a string there, for which "" is the same as absent
_CONTAINERS: Final = ("containers", "initContainers")
_WORKLOADS: Final = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")


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


def _of_pods(kinds: tuple[str, ...], spec: str) -> Iterator[Default]:
    """The defaults of a Pod's spec, which is at this path."""
    for containers in _CONTAINERS:
        field = f"{spec}.{containers}[].ports[].protocol"
        yield Default(kinds, field, "`TCP`", "TCP", _EMPTY)
    yield Default(kinds, f"{spec}.dnsPolicy", "`ClusterFirst`", "ClusterFirst", _EMPTY)


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
    *_of_pods(("Pod",), "spec"),
    Default(
        ("Pod",),
        "status.podIPs",
        "the `podIP`, which also counts if the first of them differs",
        _pod_ips,
        None,
    ),
    *_of_pods(_WORKLOADS, "spec.template.spec"),
    Default(("StatefulSet", "Deployment", "ReplicaSet"), "spec.replicas", "1", 1),
    Default(("StatefulSet",), "spec.podManagementPolicy", "`OrderedReady`", "OrderedReady"),
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
