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
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
