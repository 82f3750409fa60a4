"""What a name in a cluster zone asks for.

Path: plugins/kubernetes.py cuts the zone off and calls parse().
Source: CoreDNS 1.14.7 plugin/kubernetes/parse.go; the Kubernetes DNS specification 1.1.0 names the records.

    zone                                  apex
    svc.zone, pod.zone                    exist, hold nothing
    NAMESPACE.svc.zone                    exists with the namespace
    NAME.NAMESPACE.svc.zone               a Service
    ENDPOINT.NAME.NAMESPACE.svc.zone      one of its endpoints
    _PORT._PROTOCOL.NAME.NAMESPACE.svc.zone   one of its ports; the underscores may be missing
    ADDRESS.NAMESPACE.pod.zone            a pod; labels left of the address are ignored
    TOPOLOGY.pin._zone.NAME.NAMESPACE.svc.zone      with `zonal`: the endpoints in a topology zone, whose name may be
    TOPOLOGY.prefer._zone.NAME.NAMESPACE.svc.zone   several labels; with `prefer` all where there is none
    ENDPOINT.CLUSTER.NAME.NAMESPACE.svc.zone        in a zone of `multicluster`, where neither begins with "_"

There are no wildcards and no other empty non-terminals: `_tcp.NAME...` is an endpoint called "_tcp".
"""

from __future__ import annotations

from typing import Final, NamedTuple

SVC: Final = b"svc"
POD: Final = b"pod"
_ANCHOR: Final = b"_zone"
_DIRECTIVES: Final = (b"pin", b"prefer")


class Asked(NamedTuple):
    """A name's parts; b"" where it has none.  `kind` is SVC or POD, b"" for names that exist and hold nothing."""

    kind: bytes
    namespace: bytes = b""
    name: bytes = b""
    endpoint: bytes = b""
    port: bytes = b""
    protocol: bytes = b""
    cluster: bytes = b""
    topology_zone: bytes = b""
    prefers: bool = False  # all endpoints where the topology zone has none


EMPTY: Final = Asked(b"")


def parse(
    labels: tuple[bytes, ...], *, zonal: bool = False, multicluster: bool = False
) -> Asked | None:
    """Read the lower-case labels left of the zone; None for names that cannot exist."""
    if not labels or labels in ((SVC,), (POD,)):
        return EMPTY
    kind, count = labels[-1], len(labels)
    if kind not in (SVC, POD):
        return None
    if count == 2:
        return Asked(kind, labels[0])
    if count == 3:
        return Asked(kind, labels[1], labels[0])
    if count == 4:
        return Asked(kind, labels[2], labels[1], endpoint=labels[0])
    if count == 5:
        first, second = labels[0], labels[1]
        if multicluster and not first.startswith(b"_") and not second.startswith(b"_"):
            return Asked(kind, labels[3], labels[2], endpoint=first, cluster=second)
        return Asked(
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
    # A topology zone is a label's value in Kubernetes, which may have dots.
    topology_zone = b".".join(label.replace(b".", b"\\.") for label in labels[:-5])
    return Asked(
        kind,
        labels[-2],
        labels[-3],
        topology_zone=topology_zone,
        prefers=directive == b"prefer",
    )
