"""The metadata of the kubernetes plugin about a query and its client, with labels such as `kubernetes/namespace`.

Path: step 4, only in a block with `metadata` -> log, rewrite, template, view and plugins written in Python read it.
Source: CoreDNS 1.14.7 plugin/kubernetes/metadata.go.
"""

from __future__ import annotations

from collections.abc import Callable

from hsdns.cluster.pods import Pods
from hsdns.cluster.question import ParsedName

Values = dict[str, Callable[[], str]]


def client_values(pods: Pods, address: str) -> Values:
    """Values about the client's pod, none if it is not known; its labels if the store has them."""
    pod = pods.of_client(address)
    if pod is None:
        return {}
    namespace, name = pod
    found = {
        "kubernetes/client-namespace": _text(namespace),
        "kubernetes/client-pod-name": _constant(name),
    }
    for label, value in (pods.labels or {}).get(pod, {}).items():
        found[f"kubernetes/client-label/{label}"] = _constant(value)
    return found


def question_values(parsed: ParsedName | None, *, zonal: bool, multicluster: bool) -> Values:
    """Values about a name in one of the zones; `parsed` is None for a name that cannot exist."""
    if parsed is None:
        return {"kubernetes/parse-error": lambda: "invalid query name"}
    found = {
        "kubernetes/port-name": _text(parsed.port),
        "kubernetes/protocol": _text(parsed.protocol),
        "kubernetes/endpoint": _text(parsed.endpoint),
        "kubernetes/service": _text(parsed.name),
        "kubernetes/namespace": _text(parsed.namespace),
        "kubernetes/kind": _text(parsed.kind),
    }
    if multicluster:
        found["kubernetes/cluster"] = _text(parsed.cluster)
    if zonal:
        found["kubernetes/zone"] = _text(parsed.topology_zone)
    return found


def _constant(text: str) -> Callable[[], str]:
    return lambda: text


def _text(label: bytes) -> Callable[[], str]:
    return lambda: label.decode("utf-8", "replace")
