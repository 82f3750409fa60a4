"""HS211 to HS215: the pods of the cluster's DNS: their number, nodes, restarts, probes and readiness.

Path: judging.py -> here -> cluster/controllers/dns_service.py, which names their Service.
Rule 1: the pods are those that the Service of the DNS selects or, if the Service is not among the objects, those in its
        namespace with the usual labels.
Rule 2: a Deployment without `replicas` leaves the number to an autoscaler, as kubeadm's manifest does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from hsdns.cluster.controllers.dns_service import KNOWN, PORT, DnsService
from hsdns.cluster.controllers.kinds import PodManifest
from hsdns.rules.check import check
from hsdns.rules.checks.readiness import containers_not_ready
from hsdns.rules.finding import Remark
from hsdns.rules.objects import Objects, PodSet

_SCALED: Final = ("Deployment", "StatefulSet", "DaemonSet")
_ENDED: Final = ("Succeeded", "Failed")
_NO_MEMORY: Final = "OOMKilled"


def dns_pods(objects: Objects) -> Sequence[PodSet]:
    """The pods of the cluster's DNS, and the workloads that make them."""
    for kind, (manifest, service) in product(KNOWN, objects.services):
        if kind.is_named(service):
            return objects.selected(manifest, service.spec.selector or kind.labels)
    return [each for each in objects.pod_sets if any(_is_labelled(each, kind) for kind in KNOWN)]


def _is_labelled(pods: PodSet, kind: DnsService) -> bool:
    return pods.manifest.namespace == kind.namespace and pods.matches(kind.labels)


@check("HS211")
def one_replica(objects: Objects) -> Iterator[Remark]:
    """A Deployment that is all of the cluster's DNS and has one replica."""
    scaled = [each for each in dns_pods(objects) if each.manifest.kind in _SCALED]
    if any("replicas" not in _mapping(each.manifest.content, "spec") for each in scaled):
        return
    if sum(each.replicas or 0 for each in scaled) != 1:
        return
    for pods in scaled:
        if pods.replicas == 1:
            yield pods.manifest.remark(
                "spec.replicas",
                "the cluster's DNS has one replica, so no name resolves while its pod is restarted, replaced or moved "
                "to another node; write replicas: 2, or more",
            )


@check("HS212")
def one_node(objects: Objects) -> Iterator[Remark]:
    """DNS pods that are all on one of several nodes."""
    running = [
        (each, each.spec.node_name)
        for each in dns_pods(objects)
        if isinstance(each.manifest.object, PodManifest) and _runs(each)
    ]
    nodes = {node for _, node in running}
    others = {each.spec.node_name for each in objects.pod_sets if _runs(each)}
    if len(running) > 1 and len(nodes) == 1 and others - nodes:
        pods, node = running[0]
        yield pods.manifest.remark(
            "spec.nodeName",
            f"all {len(running)} pods of the cluster's DNS are on node {node}, so no name resolves while it is down; "
            "delete one of them, and spread them with podAntiAffinity or topologySpreadConstraints for "
            "kubernetes.io/hostname",
        )


def _runs(pods: PodSet) -> bool:
    """Whether they are a Pod that runs on a node and is not terminating."""
    found = pods.manifest.object
    return (
        isinstance(found, PodManifest)
        and bool(found.spec.node_name)
        and found.status.phase not in _ENDED
        and "deletionTimestamp" not in pods.manifest.metadata
    )


@check("HS213")
def restarted(objects: Objects) -> Iterator[Remark]:
    """DNS containers that have been restarted."""
    for pods in dns_pods(objects):
        if not isinstance(pods.manifest.object, PodManifest):
            continue
        listed = _mapping(pods.manifest.content, "status").get("containerStatuses")
        for at, each in enumerate(listed if isinstance(listed, list) else ()):
            count = each.get("restartCount") if isinstance(each, dict) else None
            if not isinstance(count, int) or count < 1:
                continue
            ended = _mapping(each, "lastState", "terminated")
            times = "once" if count == 1 else f"{count} times"
            last = f", last at {ended['finishedAt']}" if ended.get("finishedAt") else ""
            found = f"container {each.get('name')} of the cluster's DNS was restarted {times}{last}"
            field = f"status.containerStatuses[{at}].restartCount"
            if ended.get("reason") == _NO_MEMORY:
                yield pods.manifest.remark(
                    field,
                    f"{found}, because it needed more memory than its limit ({_NO_MEMORY}), and it may again when many "
                    "ask; raise the limit, and see who asks so much",
                    level="warning",
                )
            else:
                why = f" ({ended['reason']}{_code(ended)})" if ended.get("reason") else ""
                yield pods.manifest.remark(
                    field,
                    f"{found}{why}, and the queries in progress were lost; see why in the log of the container before "
                    "(kubectl logs --previous)",
                )


def _code(ended: dict[str, Any]) -> str:
    return f", exit code {ended['exitCode']}" if isinstance(ended.get("exitCode"), int) else ""


@check("HS214")
def without_probe(objects: Objects) -> Iterator[Remark]:
    """DNS containers that get queries before they are ready."""
    known = {id(each) for each in dns_pods(objects)}
    for pods in objects.templates:
        if id(pods) not in known:
            continue
        spec = _mapping(pods.manifest.content, *pods.field.split("."))
        containers = list(_running(spec))
        if any("readinessProbe" in each for _, each in containers):
            continue  # a pod is ready when all its containers are, as kube-dns with its dnsmasq
        serving = [field for field, each in containers if _listens(each)]
        if not serving and len(containers) == 1:
            serving = [containers[0][0]]
        for field in serving:
            yield pods.manifest.remark(
                f"{pods.field}.{field}.readinessProbe",
                "without a readiness probe the pod is asked as soon as it has started, before it knows the "
                "cluster, and goes on being asked when it hangs; add one for /ready on port 8181",
                at=f"{pods.field}.{field}",
            )


@check("HS215")
def not_ready(objects: Objects) -> Iterator[Remark]:
    """DNS pods that are not ready."""
    for pods in dns_pods(objects):
        found = pods.manifest.object
        if not isinstance(found, PodManifest) or not _runs(pods):
            continue
        conditions = _mapping(pods.manifest.content, "status").get("conditions")
        ready = next(
            (
                each
                for each in (conditions if isinstance(conditions, list) else ())
                if isinstance(each, dict) and each.get("type") == "Ready"
            ),
            None,
        )
        if ready is None or ready.get("status") == "True":
            continue
        why = containers_not_ready(pods.manifest.content) or str(ready.get("reason") or "")
        yield pods.manifest.remark(
            "status.conditions",
            f"the pod of the cluster's DNS is not ready{f' ({why})' if why else ''}, so it is sent no queries, and the "
            "others have its share; see its log, and kubectl describe pod",
        )


def _running(spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The containers that run as long as the pod, with their fields, including sidecars among the init containers."""
    for key in ("containers", "initContainers"):
        listed = spec.get(key)
        for at, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict) and (
                key == "containers" or each.get("restartPolicy") == "Always"
            ):
                yield f"{key}[{at}]", each


def _listens(container: dict[str, Any]) -> bool:
    """Whether a container has a port for DNS."""
    ports = container.get("ports")
    return any(
        each.get("containerPort") == PORT or each.get("name") in ("dns", "dns-tcp")
        for each in (ports if isinstance(ports, list) else ())
        if isinstance(each, dict)
    )


def _mapping(value: Any, *path: str) -> dict[str, Any]:
    """The mapping at a path; empty if there is none."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
