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

There are no wildcards and no other empty non-terminals: `_tcp.NAME...` is an endpoint called "_tcp".
"""

from __future__ import annotations

from typing import Final, NamedTuple

SVC: Final = b"svc"
POD: Final = b"pod"


class Asked(NamedTuple):
    """A name's parts; b"" where it has none.  `kind` is SVC or POD, b"" for names that exist and hold nothing."""

    kind: bytes
    namespace: bytes = b""
    name: bytes = b""
    endpoint: bytes = b""
    port: bytes = b""
    protocol: bytes = b""


EMPTY: Final = Asked(b"")


def parse(labels: tuple[bytes, ...]) -> Asked | None:
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
        return Asked(
            kind,
            labels[3],
            labels[2],
            port=labels[0].removeprefix(b"_"),
            protocol=labels[1].removeprefix(b"_"),
        )
    return None
