"""Manifests as a cluster that has applied them gives them back: with the pods of workloads, and the EndpointSlices.

Path: tests only: a situation -> here -> `hsdns doctor -source manifests`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hsdns.cluster.controllers.simulation import running_pods, simulate
from hsdns.cluster.controllers.workload import RunningPod
from hsdns.cluster.objects import EndpointSlice, Namespace, Service
from hsdns.sources.cluster_dump import ClusterDump
from hsdns.sources.manifest_file import read_manifest_file
from tests.support.manifests.documents import documents

Item = dict[str, Any]
_VERSIONS: Final[Mapping[type, str]] = {
    Namespace: "v1",
    Service: "v1",
    EndpointSlice: "discovery.k8s.io/v1",
}


def dump_of(text: str) -> bytes:
    """The objects of a cluster with these manifests, as `hsdns doctor -save` writes them."""
    found = read_manifest_file(text.encode(), "a.yaml").documents
    items: list[Item] = [each for each in documents(text) if each]
    own = {_key(each): each for each in items}
    for made in simulate(found):
        if type(made) in _VERSIONS:
            plain = json.loads(msgspec.json.encode(made))
            item = {"apiVersion": _VERSIONS[type(made)], "kind": type(made).__name__, **plain}
            written = own.get(_key(item))
            if written is None:
                items.append(_given(item))
            elif isinstance(made, Service):
                written["spec"] = {**_given(item["spec"]), **written.get("spec", {}), "ports": _given(item["spec"]["ports"])}  # fmt: skip
    workloads = [each for each in items if "template" in (each.get("spec") or {})]
    for pod in running_pods(found):
        item = own.get(("Pod", pod.manifest.metadata.namespace, pod.manifest.metadata.name), {})
        if not item:
            item = _made_by(pod, workloads)
            items.append(item)
        item.setdefault("status", _status(pod))
    dump = ClusterDump([], {})
    dump.add(*items)
    return dump.encode()


def _key(item: Item) -> tuple[str, str, str]:
    meta = item["metadata"]
    return item["kind"], meta.get("namespace", ""), meta["name"]


def _given(value: Any) -> Any:
    """The value without fields that are not set."""
    if isinstance(value, dict):
        return {key: _given(each) for key, each in value.items() if each is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def _made_by(pod: RunningPod, workloads: list[Item]) -> Item:
    """A pod that its workload has, of a Deployment by way of a ReplicaSet."""
    meta, spec = pod.manifest.metadata, pod.manifest.spec
    found = [each for each in workloads if each["metadata"].get("namespace", "") == meta.namespace]
    owner = max(
        (each for each in found if meta.name.startswith(f"{each['metadata']['name']}-")),
        key=lambda each: len(each["metadata"]["name"]),
    )
    kind, name, labels = owner["kind"], owner["metadata"]["name"], dict(meta.labels or {})
    if kind == "Deployment":
        kind, name = "ReplicaSet", f"{name}-{labels['pod-template-hash']}"
    identity = {"hostname": spec.hostname, "subdomain": spec.subdomain}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": labels,
            "ownerReferences": [{"kind": kind, "name": name, "controller": True}],
        },
        "spec": {**owner["spec"]["template"].get("spec", {}), **_given(identity)},
    }


def _status(pod: RunningPod) -> Item:
    reason = {} if pod.ready else {"reason": "ContainersNotReady"}
    return {
        "phase": "Running",
        "podIP": pod.addresses[0] if pod.addresses else "",
        "podIPs": [{"ip": each} for each in pod.addresses],
        "conditions": [{"type": "Ready", "status": str(pod.ready), **reason}],
    }
