"""The parts of a name in a cluster zone: Service, endpoint, port, pod.

Path: lookup.py calls parse() with the labels left of the zone.
Source: CoreDNS 1.14.7 plugin/kubernetes/parse.go; the Kubernetes DNS specification 1.1.0 names the records.

    zone                                  apex
    svc.zone, pod.zone                    exist without records
    NAMESPACE.svc.zone                    exists if the namespace does
    NAME.NAMESPACE.svc.zone               a Service
    ENDPOINT.NAME.NAMESPACE.svc.zone      one of its endpoints
    _PORT._PROTOCOL.NAME.NAMESPACE.svc.zone   one of its ports; the underscores are optional
    ADDRESS.NAMESPACE.pod.zone            a pod; labels left of the address are ignored
    TOPOLOGY.pin._zone.NAME.NAMESPACE.svc.zone      with `zonal`: the endpoints in a topology zone (one or more labels)
    TOPOLOGY.prefer._zone.NAME.NAMESPACE.svc.zone   the same, but all endpoints if the topology zone has none
    ENDPOINT.CLUSTER.NAME.NAMESPACE.svc.zone        in a zone of `multicluster`, if neither label begins with "_"

There are no wildcards and no other empty non-terminals: `_tcp.NAME...` is an endpoint with the label "_tcp".

Why a name of the cluster has no records, in a few words: the texts of Extended DNS Errors:
Rule 1: a text is made from the same value as the reply, so it becomes stale with the reply.
Rule 2: a text names no object: the client knows the name, and must not learn of other objects.  So there are few
        different texts, and entries of the answer table share them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.cluster.value import EXTERNAL_NAME, HEADLESS, Node, ServiceValue
from hsdns.wire.iana import RRType, type_to_text

SVC: Final = b"svc"
POD: Final = b"pod"
_ANCHOR: Final = b"_zone"
_DIRECTIVES: Final = (b"pin", b"prefer")


class ParsedName(NamedTuple):
    """The parts of a name, b"" if missing; `kind` is SVC, POD, or b"" for names that exist without records.

    `prefers` asks for all endpoints if the topology zone has none.
    """

    kind: bytes
    namespace: bytes = b""
    name: bytes = b""
    endpoint: bytes = b""
    port: bytes = b""
    protocol: bytes = b""
    cluster: bytes = b""
    topology_zone: bytes = b""
    prefers: bool = False


EMPTY: Final = ParsedName(b"")


def parse(
    labels: tuple[bytes, ...], *, zonal: bool = False, multicluster: bool = False
) -> ParsedName | None:
    """Parse the lower-case labels left of the zone; None for names that cannot exist."""
    if not labels or labels in ((SVC,), (POD,)):
        return EMPTY
    kind, count = labels[-1], len(labels)
    if kind not in (SVC, POD):
        return None
    if count == 2:
        return ParsedName(kind, labels[0])
    if count == 3:
        return ParsedName(kind, labels[1], labels[0])
    if count == 4:
        return ParsedName(kind, labels[2], labels[1], endpoint=labels[0])
    if count == 5:
        first, second = labels[0], labels[1]
        if multicluster and not first.startswith(b"_") and not second.startswith(b"_"):
            return ParsedName(kind, labels[3], labels[2], endpoint=first, cluster=second)
        return ParsedName(
            kind,
            labels[3],
            labels[2],
            port=first.removeprefix(b"_"),
            protocol=second.removeprefix(b"_"),
        )
    directive = labels[-5]
    if (
        not zonal
        or multicluster
        or kind != SVC
        or labels[-4] != _ANCHOR
        or directive not in _DIRECTIVES
    ):
        return None
    # A topology zone is the value of a Kubernetes label, so it may contain dots.
    topology_zone = b".".join(label.replace(b".", b"\\.") for label in labels[:-5])
    return ParsedName(
        kind,
        labels[-2],
        labels[-3],
        topology_zone=topology_zone,
        prefers=directive == b"prefer",
    )


NO_FORM: Final = "not the form of a name of a Service, endpoint or Pod"
NO_NAMESPACE: Final = "no such namespace"
NO_SERVED_NAMESPACE: Final = "no such namespace is served"
NO_SERVICE: Final = "no such Service in the namespace"
NO_SERVED_SERVICE: Final = "no such Service of the namespace is served"
NO_POD: Final = "no Pod of the namespace has this address"
NO_ADDRESS: Final = "not the address of a Pod"
PODS_DISABLED: Final = "names of Pods are disabled"
NO_POINTER: Final = "no Service or endpoint that is served has this address"
NO_RECORDS: Final = "the name has no records of any type"
_FAMILIES: Final = {RRType.A: "IPv4", RRType.AAAA: "IPv6"}


def readiness(value: ServiceValue, *, counted: bool = True) -> str:
    """How many endpoints of a Service are ready; without the total unless those not ready are `counted`."""
    ready, count = value.readiness
    if not counted:
        return f"{ready} endpoints ready" if ready else "no ready endpoints"
    return f"{ready} of {count} endpoints ready" if count else "no endpoints"


def absence(value: ServiceValue, parsed: ParsedName, *, counted: bool) -> str:
    """Why a name at or below a Service, or at or below one that has only slices, does not exist."""
    if value.kind is None:
        unusable = "the externalName of the Service is not a domain name"
        return unusable if value.resource_version else NO_SERVICE
    if value.kind == EXTERNAL_NAME:
        return "a Service of type ExternalName has no names below its own"
    if parsed.topology_zone:
        return "only headless Services have names for a topology zone"
    if parsed.endpoint:
        return f"no ready endpoint has this name; {readiness(value, counted=counted)}"
    if value.kind == HEADLESS and not value.has_endpoints:
        return readiness(value, counted=counted)
    return "no such port"


def nodata(found: Node | bytes | None, qtype: int) -> str:
    """Why an existing name has no records of a type; `found` is the result of lookup.py."""
    family = _FAMILIES.get(qtype)
    if family is None or found is None:
        return f"the name has no {type_to_text(qtype)} records"
    if isinstance(found, bytes) or found.a or found.aaaa:
        return f"no {family} address"
    if found.targets:
        return f"the externalName leads to no {type_to_text(qtype)} records"
    return "no address"
