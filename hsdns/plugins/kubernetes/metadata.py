"""What the kubernetes plugin knows of a query, as values with labels such as `kubernetes/namespace`.

Path: step 4, only in a block with `metadata` -> log, rewrite, template, view and a user's own plugins read them.
Source: CoreDNS 1.14.7 plugin/kubernetes/metadata.go.
"""

from __future__ import annotations

from collections.abc import Callable

from hsdns.cluster.pods import client_pod
from hsdns.cluster.question import Asked
from hsdns.cluster.store import Store

Values = dict[str, Callable[[], str]]


def client_values(store: Store, address: str) -> Values:
    """Values about the pod that asks, none where it is not known; its labels where the store keeps them."""
    pod = client_pod(store, address)
    if pod is None:
        return {}
    namespace, name = pod
    found = {
        "kubernetes/client-namespace": _text(namespace),
        "kubernetes/client-pod-name": _same(name),
    }
    for label, value in (store.pod_labels or {}).get(pod, {}).items():
        found[f"kubernetes/client-label/{label}"] = _same(value)
    return found


def question_values(asked: Asked | None, *, zonal: bool, multicluster: bool) -> Values:
    """Values about a name in one of the zones; None is a name that cannot exist."""
    if asked is None:
        return {"kubernetes/parse-error": lambda: "invalid query name"}
    found = {
        "kubernetes/port-name": _text(asked.port),
        "kubernetes/protocol": _text(asked.protocol),
        "kubernetes/endpoint": _text(asked.endpoint),
        "kubernetes/service": _text(asked.name),
        "kubernetes/namespace": _text(asked.namespace),
        "kubernetes/kind": _text(asked.kind),
    }
    if multicluster:
        found["kubernetes/cluster"] = _text(asked.cluster)
    if zonal:
        found["kubernetes/zone"] = _text(asked.topology_zone)
    return found


def _same(text: str) -> Callable[[], str]:
    return lambda: text


def _text(label: bytes) -> Callable[[], str]:
    return lambda: label.decode("utf-8", "replace")
